package memory

import (
	"context"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A waiter is one blocked Await or AwaitList. It has no goroutine but its caller's.
type waiter struct {
	woken driver.Waker
	// due says that it was woken, and has not returned or continued to wait since.
	due bool
	// caughtUp is the session's; nil: the session is not behind.
	caughtUp <-chan struct{}
	watches  []watch
	few      [2]watch // enough for nearly all calls
}

// A watch is a waiter's place among the waiters for the same entry or directory.
type watch struct {
	w     *waiter
	n     *node
	dir   bool
	place place[watch]
}

// subscribe begins to watch the known entries or, if there are none, the directory.
func (n *session) subscribe(dir string, known []backend.Entry) *waiter {
	w := &waiter{woken: driver.NewWaker(), caughtUp: n.caughtUp}
	w.watches = w.few[:0]
	if len(known) > len(w.few) {
		w.watches = make([]watch, 0, len(known))
	}
	for _, e := range known {
		w.watches = append(w.watches, watch{w: w, n: n.svc.node(e.Key)})
	}
	if len(known) == 0 {
		w.watches = append(w.watches, watch{w: w, n: n.svc.node(dir), dir: true})
	}
	for i := range w.watches {
		at := &w.watches[i]
		at.others().add(&at.place, at)
		n.svc.stats.Watches++
	}
	return w
}

func (w *watch) others() *list[watch] {
	if w.dir {
		return &w.n.asDir().watches
	}
	return &w.n.watches
}

// wake wakes all waiters. One that was woken already reads after this change.
func (s *Service) wake(all *list[watch]) {
	for at := range all.all() {
		if !at.w.due {
			at.w.due = true
			s.stats.Due++
		}
		at.w.woken.Wake()
	}
}

// attended notes that a waiter returns, or continues to wait.
func (s *Service) attended(w *waiter) {
	if w.due {
		w.due = false
		s.stats.Due--
	}
}

// Await implements backend.Driver. What it returns is the state at one instant.
func (n *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	return await(ctx, n, Step{Kind: StepAwait, Key: known[0].Key}, &n.svc.stats.Awaits, known, func() ([]backend.Entry, bool) {
		now := n.compare(known)
		return now, now != nil
	})
}

// compare returns the current entries for the known ones, or nil if nothing changed.
func (n *session) compare(known []backend.Entry) []backend.Entry {
	for _, e := range known {
		if !n.view().lookup(e.Key).Same(e) {
			now := make([]backend.Entry, len(known))
			for i, e := range known {
				now[i] = n.view().lookup(e.Key)
			}
			return now
		}
	}
	return nil
}

// AwaitList implements backend.Driver.
func (n *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	dir := known.Dir
	return await(ctx, n, Step{Kind: StepAwaitList, Key: dir}, &n.svc.stats.AwaitLists, nil, func() (backend.Listing, bool) {
		rev, exists := n.view().listRev(dir)
		if exists && rev != known.Rev || !exists && len(known.Keys) > 0 {
			return n.view().list(dir), true
		}
		return known, false
	})
}

// await returns what read returns once that has changed; asked counts the calls. It waits for the known
// entries or, if there are none, for the directory that the step is about.
func await[T any](ctx context.Context, n *session, step Step, asked *uint64, known []backend.Entry, read func() (T, bool)) (T, error) {
	type reading struct {
		now     T
		changed bool
	}
	var w *waiter
	defer func() {
		if w != nil {
			n.unwatch(w)
		}
	}()
	first, err := ask(ctx, n, step, func() reading {
		*asked++
		now, changed := read()
		if !changed && w == nil {
			w = n.subscribe(step.Key, known) // under the same lock as the read: no change gets in between
		}
		return reading{now, changed}
	})
	if err != nil || first.changed {
		return first.now, err
	}
	return wait(ctx, n, w, step.Key, read)
}

// unwatch removes the waiter's watches.
func (n *session) unwatch(w *waiter) {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	n.svc.attended(w)
	for i := range w.watches {
		at := &w.watches[i]
		at.others().remove(&at.place)
		n.svc.stats.Watches--
		n.svc.forget(at.n)
	}
}

// wait blocks until a wake-up is delivered after which read reports a change, and returns what it read.
// read is called with the service locked.
func wait[T any](ctx context.Context, n *session, w *waiter, key string, read func() (T, bool)) (T, error) {
	var none T
	for {
		select {
		case <-w.woken:
		case <-w.caughtUp:
			w.caughtUp = nil
		case <-n.lost:
			return none, backend.ErrSessionLost
		case <-ctx.Done():
			return none, ctx.Err()
		}
		if err := n.deliver(ctx); err != nil {
			return none, err
		}
		for arrived := false; !arrived; {
			if err := n.enter(ctx, Step{Kind: StepWake, Key: key}); err != nil {
				return none, err
			}
			n.svc.stats.Wakeups++
			if n.unknown() {
				n.svc.mu.Unlock()
				return none, backend.ErrSessionLost
			}
			now, ok := read()
			if !ok {
				n.svc.attended(w)
				n.svc.mu.Unlock()
				break
			}
			var err error
			if arrived, err = n.travel(ctx, fromService); err != nil {
				return none, err
			}
			if arrived {
				n.svc.mu.Unlock()
				return now, nil
			}
		}
	}
}

// deliver blocks for as long as DelayWakeups and HoldWakeups ask for.
func (n *session) deliver(ctx context.Context) error {
	n.svc.mu.Lock()
	delay := n.client.delay
	n.svc.mu.Unlock()
	if delay > 0 {
		if err := n.sleep(ctx, delay); err != nil {
			return err
		}
	}
	for {
		n.svc.mu.Lock()
		var gate chan struct{}
		if len(n.client.held) > 0 {
			gate = n.client.held[0]
		}
		n.svc.mu.Unlock()
		if gate == nil {
			return nil
		}
		select {
		case <-gate:
		case <-n.lost:
			return backend.ErrSessionLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
