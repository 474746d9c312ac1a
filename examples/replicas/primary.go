package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector"
)

// A term is what a node does while it leads: it claims the logs of a majority, takes writes, streams
// them to the others, and acknowledges what a majority has on disk.
type term struct {
	*node
	token   uint64
	valid   func() bool
	writers sync.WaitGroup // writes that were taken and are not answered

	mu      sync.Mutex
	ends    map[string]position // where the logs ended of those that heed the claim
	has     map[string]int      // up to which record each has the primary's log
	serving bool                // a majority heeds the claim, and none of it has more
	over    error               // why nothing is acknowledged any more
	changed chan struct{}       // closed when one of these changes
}

// How long a primary waits for a majority to heed its claim, before it lets others try; for a majority to
// have a record; and, when it goes, for others to have all that it has.
const (
	claimFor = 10 * time.Second
	writeFor = 10 * time.Second
	drainFor = 5 * time.Second
)

// lead is one term.
func (n *node) lead(ctx context.Context, et *elector.Term) error {
	t := &term{
		node: n, token: et.Token(), valid: et.Valid,
		ends: make(map[string]position), has: make(map[string]int), changed: make(chan struct{}),
	}
	// The streams go on when lead's ctx has ended and the term has not: an heir is to have everything.
	streaming, stop := context.WithCancel(et.Context())
	var streams sync.WaitGroup
	defer streams.Wait()
	defer stop()
	defer context.AfterFunc(et.Context(), func() { t.end(context.Cause(et.Context())) })()

	end, err := n.journal.claim(t.token)
	if err != nil {
		return err
	}
	t.change(func() { t.ends[n.id], t.has[n.id] = end, end.Index })
	for id := range n.nodes.addrs {
		if id != n.id {
			streams.Go(func() { t.stream(streaming, id) })
		}
	}
	if err := t.awaitClaims(ctx); err != nil {
		n.say("does not take writes: %v", err)
		return err
	}
	n.say("PRIMARY, token %d: a majority heeds it, and its log up to %v is the most advanced", t.token, end)
	n.takes(t)
	err = t.await(ctx, func() bool { return false })
	n.takes(nil)
	request, _ := et.Request()
	t.drain(streaming, request.To)
	return err
}

// awaitClaims blocks until a majority heeds the claim. A log that is more advanced than this one may
// have what was acknowledged: then its node is to lead, whose rank says so by now.
func (t *term) awaitClaims(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, claimFor, errors.New("no majority heeds the claim"))
	defer cancel()
	err := t.await(ctx, func() bool { return t.majority(func(id string) bool { _, is := t.ends[id]; return is }) })
	if err != nil {
		return err
	}
	t.change(func() {
		for id, end := range t.ends {
			if t.ends[t.id].less(end) && !t.nodes.observers[id] {
				err = fmt.Errorf("the log of %s is more advanced: up to %v, and not %v", id, end, t.ends[t.id])
			}
		}
		t.serving = err == nil
	})
	return err
}

// majority tells whether something is so for a majority. Observers do not count.
func (t *term) majority(is func(id string) bool) bool {
	count := 0
	for id := range t.nodes.addrs {
		if !t.nodes.observers[id] && is(id) {
			count++
		}
	}
	return count >= t.nodes.majority()
}

// write appends a record, and returns when a majority has it. On an error the record may be there in
// the end, or not.
func (t *term) write(ctx context.Context, data string) (position, error) {
	if !t.valid() {
		return position{}, errNotPrimary // nothing was written
	}
	at, err := t.journal.write(t.token, data)
	if err != nil {
		return at, err
	}
	t.change(func() { t.has[t.id] = max(t.has[t.id], at.Index) })
	ctx, cancel := context.WithTimeoutCause(ctx, writeFor, errors.New("no majority has it"))
	defer cancel()
	err = t.await(ctx, func() bool { return t.majority(func(id string) bool { return t.has[id] >= at.Index }) })
	if err != nil {
		return at, fmt.Errorf("%w: record %v: %w", errUnknown, at, err)
	}
	return at, nil
}

// errUnknown says that a majority did not tell that it has a record.
var errUnknown = errors.New("not acknowledged, and perhaps written")

// drain blocks until what was taken is answered, and the heir has it.
func (t *term) drain(streaming context.Context, heir string) {
	ctx, cancel := context.WithTimeout(streaming, drainFor)
	defer cancel()
	defer context.AfterFunc(ctx, func() { t.end(errNotPrimary) })() // whatever still waits
	t.writers.Wait()
	if _, known := t.nodes.addrs[heir]; !known {
		return
	}
	end := t.journal.ending()
	if err := t.await(ctx, func() bool { return t.has[heir] >= end.Index }); err != nil {
		t.say("%s, which is to lead next, does not have everything: %v", heir, err)
		return
	}
	t.say("%s, which is to lead next, has everything up to %v", heir, end)
}

// stream claims the log of another node, and then sends it what it does not have, until ctx ends.
func (t *term) stream(ctx context.Context, id string) {
	for tries := 0; ; tries++ {
		began := time.Now()
		err := t.session(ctx, id)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOld):
			t.end(fmt.Errorf("%s: %w", id, err))
			return
		case time.Since(began) > time.Second:
			tries = 0
		}
		if tries == 0 {
			t.say("tries to reach %s until it works: %v", id, err)
		}
		if !pause(ctx, tries) {
			return
		}
	}
}

// session is one connection to another node.
func (t *term) session(ctx context.Context, id string) error {
	l, err := connect(ctx, t.nodes.addrs[id])
	if err != nil {
		return err
	}
	defer l.conn.Close()
	end, err := t.request(ctx, l, request{Kind: claim})
	if err != nil {
		return err
	}
	t.change(func() {
		if _, is := t.ends[id]; !is {
			t.ends[id] = end.At
		}
	})
	for next := end.At.Index; ; {
		// What is sent before a majority heeds the claim would undo records that may be acknowledged.
		if err := t.await(ctx, func() bool { return t.serving }); err != nil {
			return err
		}
		prev, records, changed := t.journal.read(next)
		a, err := t.request(ctx, l, request{Kind: put, Prev: prev, Records: records})
		switch {
		case err != nil:
			return err
		case a.Gap && a.At.Index < prev.Index:
			next = max(a.At.Index, 0)
			continue
		case a.Gap:
			return fmt.Errorf("%s asks for what comes after %v, and was given it", id, prev)
		}
		next = prev.Index + len(records)
		t.change(func() { t.has[id] = max(t.has[id], next) })
		beat := time.NewTimer(idle / 4) // a connection on which nothing is said is closed
		select {
		case <-changed:
		case <-beat.C:
		case <-ctx.Done():
		}
		beat.Stop()
	}
}

// request asks another node, and gives up on one that does not answer.
func (t *term) request(ctx context.Context, l *link, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.Token, r.From = t.token, t.id
	a, err := l.ask(ctx, r)
	switch {
	case err != nil:
		return a, err
	case a.Old:
		return a, fmt.Errorf("%w: %s", errOld, a.Error)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// change changes what the term knows, and wakes those who wait for it.
func (t *term) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *term) end(why error) {
	t.change(func() {
		if t.over == nil {
			t.over = why
		}
	})
}

// await blocks until something is so, ctx ends, or the term is over.
func (t *term) await(ctx context.Context, is func() bool) error {
	for {
		t.mu.Lock()
		done, over, changed := is(), t.over, t.changed
		t.mu.Unlock()
		switch {
		case done:
			return nil
		case over != nil:
			return over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
