package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// resolve finds out whether a multi whose answer was lost was applied, and if so
// returns what it made.
//
// It waits until the session is live on a later link, has the server catch up with
// the leader, and reads. That is definitive. The server closes a session's old
// connection when the client comes back, and the leader refuses requests that
// still arrive for a session that has moved to another server. So whatever of the
// old link was going to be applied has been ordered before the sync, and nothing
// of it comes after.
//
// A multi is applied as a whole, so one of its ops, the best witness, answers
// for all.
func (c *commit) resolve(ctx context.Context, m *multi, gen uint64) ([]backend.Entry, bool, error) {
	s := c.s
	if _, err := s.awaitLive(ctx, gen); err != nil {
		return nil, false, err
	}
	if len(c.ops) == 0 {
		return nil, false, nil // only guards: ask again
	}
	w := c.witness()
	if err := s.sync(ctx, s.path(c.ops[w].Key)); err != nil {
		return nil, false, readError(err)
	}
	applied, err := c.testify(ctx, m, w)
	if err != nil || !applied {
		return nil, false, err
	}
	made, err := c.recover(ctx)
	return made, err == nil, err
}

// witness picks the op whose effect is the plainest.
func (c *commit) witness() int {
	order := []backend.OpKind{backend.OpEnqueue, backend.OpCreate, backend.OpPut, backend.OpSet, backend.OpDelete}
	for _, kind := range order {
		if i := slices.IndexFunc(c.ops, func(op backend.Op) bool { return op.Kind == kind }); i >= 0 {
			return i
		}
	}
	return 0
}

// testify tells by one op whether the multi was applied.
func (c *commit) testify(ctx context.Context, m *multi, i int) (bool, error) {
	s, op := c.s, c.ops[i]
	if op.Kind == backend.OpEnqueue {
		key, err := c.find(ctx, i)
		return key != "", err
	}
	if op.Kind == backend.OpCreate && m.marked[i] {
		n, err := s.get(ctx, backend.Parent(s.path(op.Key)))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false, readError(err)
		}
		if err == nil && bytes.Equal(n.data, mark(c.nonces[i])) {
			return true, nil
		}
		// Another create has written there since, or this one was not done.
	}
	e := backend.Entry{Key: op.Key}
	n, err := s.get(ctx, s.path(op.Key))
	switch {
	case err == nil:
		e = s.entry(s.path(op.Key), n)
	case !errors.Is(err, zk.ErrNoNode):
		return false, readError(err)
	}
	switch op.Kind {
	case backend.OpCreate:
		// Mine if it is this session's and no other call of the session made it.
		_, known := s.memory.proof(e)
		return e.Session == s.id && !known && bytes.Equal(e.Value, op.Value), nil
	case backend.OpPut:
		switch {
		case e.Version <= op.Version:
			return false, nil // sent again, it is refused if that is not the version
		case e.Version == op.Version+1 && bytes.Equal(e.Value, op.Value):
			return true, nil
		case e.Version == op.Version+1:
			// Another's write took the version that this one needed.
			return false, nil
		}
		return false, fmt.Errorf("%w: the reply was lost, and the entry is at version %d now, %d was expected",
			backend.ErrIndeterminate, e.Version, op.Version)
	case backend.OpSet:
		// Doing it again does no harm, except that the version rises once more.
		return e.Rev == op.Rev && bytes.Equal(e.Value, op.Value), nil
	case backend.OpDelete:
		return e.Rev != op.Rev, nil
	}
	return false, nil
}

// find looks for the entry that an Enqueue made; "" means that there is none.
func (c *commit) find(ctx context.Context, i int) (string, error) {
	names, _, err := c.s.list(ctx, c.ops[i].Key)
	if err != nil {
		return "", readError(err)
	}
	for _, n := range names {
		if n.nonce == c.nonces[i] {
			return c.ops[i].Key + "/" + n.text, nil
		}
	}
	return "", nil
}

// recover reads what a multi made.
func (c *commit) recover(ctx context.Context) ([]backend.Entry, error) {
	s := c.s
	made := make([]backend.Entry, len(c.ops))
	for i, op := range c.ops {
		made[i] = backend.Entry{Key: op.Key}
		switch op.Kind {
		case backend.OpDelete:
			s.memory.bury(op.Key, op.Rev)
			continue
		case backend.OpEnqueue:
			key, err := c.find(ctx, i)
			if err != nil {
				return nil, err
			}
			made[i].Key = key
		}
		var err error
		var n node
		if made[i].Key != "" {
			n, err = s.get(ctx, s.path(made[i].Key))
		}
		switch {
		case made[i].Key == "" || errors.Is(err, zk.ErrNoNode):
			return nil, fmt.Errorf("%w: it was done, and somebody has deleted %s since", backend.ErrIndeterminate, op.Key)
		case err != nil:
			return nil, readError(err)
		}
		e := s.entry(s.path(made[i].Key), n)
		switch {
		case op.Kind == backend.OpPut:
			e.Value, e.Version = op.Value, op.Version+1
		case op.Kind == backend.OpSet:
			e.Value = op.Value
		case e.Session != s.id:
			return nil, fmt.Errorf("%w: it was done, and %s has been replaced since", backend.ErrIndeterminate, op.Key)
		}
		made[i] = e
	}
	return made, nil
}

// reaper removes in the background what abandoned commits may have left. It is one
// goroutine per session, there only while there is something to do.
type reaper struct {
	mu      sync.Mutex
	jobs    []func(context.Context) error
	running bool
}

// reap has a job done, again and again until it succeeds or the session is lost.
func (s *session) reap(job func(context.Context) error) {
	r := &s.reaper
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, job)
	if r.running || !s.begin() {
		return // the entries of a lost session go by themselves
	}
	r.running = true
	go func() {
		defer s.calls.Done()
		s.reapAll()
	}()
}

func (s *session) reapAll() {
	const pause = time.Second
	for {
		s.reaper.mu.Lock()
		if len(s.reaper.jobs) == 0 || s.ctx.Err() != nil {
			s.reaper.jobs, s.reaper.running = nil, false
			s.reaper.mu.Unlock()
			return
		}
		job := s.reaper.jobs[0]
		s.reaper.jobs = s.reaper.jobs[1:]
		s.reaper.mu.Unlock()
		err := job(s.ctx)
		if err == nil || s.ctx.Err() != nil {
			continue
		}
		s.cfg.Logger.Warn("zookeeper: an entry could not be removed; trying again", "session", s.id, "error", err)
		s.reaper.mu.Lock()
		s.reaper.jobs = append(s.reaper.jobs, job)
		s.reaper.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
		}
	}
}
