package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// watchKey is what can be watched: an entry, or a directory's list of entries.
type watchKey struct {
	key  string
	list bool
}

// A watch stands at the server until it fires, once. Guarded by server.mu.
type watch struct {
	s     *session
	entry backend.Entry // as it was read when the watch was set
	rev   uint64        // of the listing that was
	fired bool
	gone  bool      // it was a deletion
	heard time.Time // when the notice arrives
}

// unwatch takes a watch from the server.
func (s *server) unwatch(key watchKey, w *watch) {
	at := s.watches[key]
	if i := slices.Index(at, w); i >= 0 {
		s.watches[key] = slices.Delete(at, i, i+1)
	}
}

// standing returns a watch that the session believes to stand; nil if there is none. One
// whose notice has not arrived still seems to. Caller holds server.mu.
func (n *session) standing(key watchKey) *watch {
	if w := n.watches[key]; w != nil && (!w.fired || time.Now().Before(w.heard)) {
		return w
	}
	return nil
}

// set notes a watch at the server, at the instant of the read that sets it.
func (n *session) set(key watchKey, w watch) {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	w.s = n
	if standing := n.watches[key]; standing != nil && !standing.fired {
		*standing = w // the server keeps one of a session's on the same thing
		return
	}
	n.watches[key] = &w
	s.watches[key] = append(s.watches[key], &w)
}

// Await implements backend.Driver. It reads what no watch shows, all at once, and is told
// of deletions without a read.
func (n *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	n.server.waitAtGate()
	n.server.mu.Lock()
	for _, e := range known {
		if key := (watchKey{key: e.Key}); n.standing(key) == nil {
			delete(n.watches, key) // what it told may be about an earlier incarnation
		}
	}
	n.server.mu.Unlock()
	seen := make([]backend.Entry, len(known))
	absent := make([]bool, len(known)) // read by this call, and there was nothing to watch
	for {
		if err := n.over(ctx); err != nil {
			return nil, err
		}
		var unread []int
		var soonest time.Time
		n.server.mu.Lock()
		changed, differs := n.changed, false
		for i, e := range known {
			w := n.watches[watchKey{key: e.Key}]
			switch heard := w != nil && w.fired && !time.Now().Before(w.heard); {
			case absent[i], heard && w.gone:
				seen[i] = backend.Entry{Key: e.Key}
			case w == nil || heard:
				unread = append(unread, i)
				continue
			default:
				seen[i] = w.entry
				if w.fired && (soonest.IsZero() || w.heard.Before(soonest)) {
					soonest = w.heard
				}
			}
			differs = differs || !seen[i].Same(e)
		}
		n.server.mu.Unlock()
		switch {
		case len(unread) > 0:
			if err := n.readWatched(ctx, known, unread, absent); err != nil {
				return nil, err
			}
		case differs:
			return seen, nil
		default:
			if err := n.wait(ctx, changed, soonest); err != nil {
				return nil, err
			}
		}
	}
}

// readWatched reads some of the known entries in requests that go out together, and leaves
// a watch on each. One on nothing takes a second request: it is set where an entry is
// waited for to come, or might come before another changes.
func (n *session) readWatched(ctx context.Context, known []backend.Entry, unread []int, absent []bool) error {
	idle := func(i int) bool { return known[i].Exists() && len(known) == 1 }
	reads := 0
	_, err := asked(n,
		func(m report.Model) time.Duration {
			for _, i := range unread {
				reads++
				if _, err := n.Session.Get(ctx, known[i].Key); errors.Is(err, backend.ErrNoEntry) && !idle(i) {
					reads++
				}
			}
			return time.Duration(reads) * m.Read
		},
		func() (struct{}, error) {
			for _, i := range unread {
				e, err := n.Session.Get(ctx, known[i].Key)
				if err != nil && !errors.Is(err, backend.ErrNoEntry) {
					return struct{}{}, err
				}
				if e.Key = known[i].Key; !e.Exists() && idle(i) {
					absent[i] = true
					continue
				}
				n.set(watchKey{key: e.Key}, watch{entry: e})
			}
			return struct{}{}, nil
		})
	// They were requests of their own, each with an answer.
	n.server.mu.Lock()
	n.server.packets += 2 * max(reads-1, 0)
	n.server.mu.Unlock()
	return err
}

// over is the error of a session that is lost, or of a ctx that has ended: what a watch
// shows must not be told any more.
func (n *session) over(ctx context.Context) error {
	select {
	case <-n.lost:
		return backend.ErrSessionLost
	default:
	}
	if ctx.Err() != nil {
		return driver.ContextError(ctx)
	}
	return nil
}

// wait blocks until a watch of the session fires, or the notice of one that has fired
// arrives.
func (n *session) wait(ctx context.Context, changed <-chan struct{}, heard time.Time) error {
	var arrived <-chan time.Time
	if !heard.IsZero() {
		timer := time.NewTimer(time.Until(heard))
		defer timer.Stop()
		arrived = timer.C
	}
	select {
	case <-changed:
	case <-arrived:
	case <-n.lost:
	case <-ctx.Done():
	}
	return n.over(ctx)
}

// AwaitList implements backend.Driver. Each caller lists for itself when the directory
// has changed.
func (n *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	n.server.waitAtGate()
	key := watchKey{key: known.Dir, list: true}
	for {
		var heard time.Time
		n.server.mu.Lock()
		w, changed := n.standing(key), n.changed
		if w != nil && w.fired {
			heard = w.heard
		}
		n.server.mu.Unlock()
		if w != nil && w.rev == known.Rev {
			if err := n.wait(ctx, changed, heard); err != nil {
				return backend.Listing{}, err
			}
			continue
		}
		now, err := asked(n, n.listing(ctx, known.Dir), func() (backend.Listing, error) {
			now, err := n.Session.List(ctx, known.Dir)
			if err == nil {
				n.set(key, watch{rev: now.Rev})
			}
			return now, err
		})
		if err != nil || now.Rev != known.Rev {
			return now, err
		}
	}
}
