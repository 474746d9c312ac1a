package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/elector-go/elector/backend"
)

// A Semaphore has K permits in Dir. At most K sessions hold one at once, in the order of arrival.
//
//  1. Agree on k: the directory's value, written by the first, must be the same for all.
//  2. Enqueue an entry, me, if that value is unchanged.
//  3. List the line. If fewer than k are before me, I hold a permit.
//  4. Wait until me or one of the k right before me goes. Me: back to 1. Else back to 3.
//
// Nobody comes in before an existing entry, so an entry among the first k stays there: there are never more
// than k. And while the k right before me exist, I am not among them: so it is enough to watch those k, and a
// released permit wakes k, not all that wait. With k = 1 this is the fair lock.
//
// Source: Consul's semaphore (consul lock -n), which keeps the holders in one entry and wakes all at each
// change; Curator's InterProcessSemaphoreV2.
//
// Trap: two processes that do not agree on k. One with 3 enters where another with 2 relies on one place
// less. So k is stored, and a process with another k is refused; to change it, delete the directory when
// nobody is in it.
//
// An operator that ends a session in the service, or deletes an entry, lets another in before the holder
// hears of it: for that moment one more holds a permit.
//
// Another trap: a permit has no useful fencing token. The k holders write at the same time, and a store that
// refuses all but the highest token refuses k-1 rightful holders. It cannot distinguish a holder that was
// paused from one that is late. So do not use it for what only one may do: k leaders are k elections, each
// with its seat and its token. docs/recipes.md says more.
type Semaphore struct {
	Dir string
	K   int
}

// Acquire blocks until the session holds a permit. The Hold ends with the session, or when somebody deletes
// the entry.
func (m Semaphore) Acquire(ctx context.Context, s *backend.Session, name string) (*Hold, error) {
	stand := func() ([]backend.Entry, error) { return m.stand(ctx, s, name) }
	return inLine(ctx, s, stand, func(me []backend.Entry) error { return m.wait(ctx, s, me[0]) })
}

// stand enqueues an entry if all agree on K.
func (m Semaphore) stand(ctx context.Context, s *backend.Session, name string) ([]backend.Entry, error) {
	if m.K < 1 {
		return nil, fmt.Errorf("%s: K is %d: there has to be one permit at least", m.Dir, m.K)
	}
	for {
		limit, err := read(ctx, s, m.Dir)
		if err == nil && !limit.Exists() {
			limit, err = write(ctx, s, limit, []byte(strconv.Itoa(m.K)))
		}
		if err == nil {
			if string(limit.Value) != strconv.Itoa(m.K) {
				return nil, fmt.Errorf("%s: K is %d here, and others have agreed on %.40q", m.Dir, m.K, limit.Value)
			}
			var made []backend.Entry
			made, err = s.Commit(ctx, []backend.Condition{backend.IfUnchanged(limit)}, backend.Enqueue(m.Dir, []byte(name)))
			if err == nil {
				return made, nil
			}
		}
		if !refused(err) && !errors.Is(err, backend.ErrNoParent) && !again(ctx, err) {
			return nil, err
		}
	}
}

// wait blocks until fewer than K are before me. The error is ErrNoEntry if me is gone.
func (m Semaphore) wait(ctx context.Context, s *backend.Session, me backend.Entry) error {
	for {
		line, err := s.List(ctx, m.Dir)
		if err != nil {
			return err
		}
		i := slices.Index(line.Keys, me.Key)
		switch {
		case i < 0:
			return fmt.Errorf("%s: %w", me.Key, backend.ErrNoEntry)
		case i < m.K:
			return nil
		}
		known := []backend.Entry{me}
		for _, key := range line.Keys[i-m.K : i] {
			known = append(known, backend.Unknown(key)) // the first Await reads it
		}
		gone := func(e backend.Entry) bool { return e.Session == "" } // or persistent: a stranger's, which blocks nobody
		for waits := true; waits; waits = !slices.ContainsFunc(known, gone) {
			if known, err = s.Await(ctx, known...); err != nil {
				return err
			}
		}
	}
}
