package memory

import (
	"context"

	"github.com/elector-go/elector/backend"
)

// A waiter is one blocked Await or AwaitList. It has no goroutine but its caller's.
type waiter struct {
	woken chan struct{} // holds one
	// caughtUp is that of the session; nil: it is not behind.
	caughtUp <-chan struct{}
	few      [2]watch // enough for nearly all calls
}

// A watch is a waiter's place among those who wait for the same thing.
type watch struct {
	w          *waiter
	n          *node
	dir        bool
	prev, next *watch
}

func (n *session) waiter() *waiter {
	return &waiter{woken: make(chan struct{}, 1), caughtUp: n.caughtUp}
}

func (w *watch) head() **watch {
	if w.dir {
		return &w.n.asDir().watch
	}
	return &w.n.watch
}

func (s *Service) subscribe(w *watch) {
	head := w.head()
	w.next = *head
	if w.next != nil {
		w.next.prev = w
	}
	*head = w
	s.stats.Watches++
}

func (s *Service) unsubscribe(w *watch) {
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		*w.head() = w.next
	}
	s.stats.Watches--
	s.forget(w.n)
}

// wake rouses all from head on.
func wake(head *watch) {
	for w := head; w != nil; w = w.next {
		select {
		case w.w.woken <- struct{}{}:
		default: // it has a wake-up before it, and will read after this change
		}
	}
}

// Await implements backend.Driver. What it returns is the state at one instant.
func (n *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	key := known[0].Key
	var w *waiter
	var watches []watch
	defer func() { n.unwatch(watches) }()
	now, err := ask(ctx, n, Step{Kind: StepAwait, Key: key}, func() []backend.Entry {
		n.svc.stats.Awaits++
		now := n.compare(known)
		if now != nil || w != nil {
			return now
		}
		// Subscribed under the same lock as the read: no change gets in between.
		w = n.waiter()
		watches = w.few[:0]
		if len(known) > len(w.few) {
			watches = make([]watch, 0, len(known))
		}
		for _, e := range known {
			watches = append(watches, watch{w: w, n: n.svc.node(e.Key)})
			n.svc.subscribe(&watches[len(watches)-1])
		}
		return nil
	})
	if err == nil && now == nil {
		now, err = wait(ctx, n, w, key, func() ([]backend.Entry, bool) {
			now := n.compare(known)
			return now, now != nil
		})
	}
	if err != nil {
		return nil, err
	}
	return now, nil
}

// compare returns what there is of the known entries, or nil if nothing changed.
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
	changed := func() (backend.Listing, bool) {
		rev, exists := n.view().listRev(dir)
		if exists && rev != known.Rev || !exists && len(known.Keys) > 0 {
			return n.view().list(dir), true
		}
		return known, false
	}
	type reading struct {
		backend.Listing
		changed bool
	}
	var w *waiter
	var watches []watch
	defer func() { n.unwatch(watches) }()
	now, err := ask(ctx, n, Step{Kind: StepAwaitList, Key: dir}, func() reading {
		n.svc.stats.AwaitLists++
		l, ok := changed()
		if !ok && w == nil {
			w = n.waiter()
			w.few[0] = watch{w: w, n: n.svc.node(dir), dir: true}
			watches = w.few[:1]
			n.svc.subscribe(&watches[0])
		}
		return reading{l, ok}
	})
	if err == nil && !now.changed {
		now.Listing, err = wait(ctx, n, w, dir, changed)
	}
	if err != nil {
		return backend.Listing{}, err
	}
	return now.Listing, nil
}

// unwatch gives up watches.
func (n *session) unwatch(watches []watch) {
	if len(watches) == 0 {
		return
	}
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	for i := range watches {
		n.svc.unsubscribe(&watches[i])
	}
}

// wait blocks until a wake-up is delivered that read says is the one, with the service
// locked for read, and returns what it has read.
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

// deliver takes as long as DelayWakeups and HoldWakeups want it to.
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
