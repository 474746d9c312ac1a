package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Await implements backend.Driver. It holds no goroutine, and reads nothing while the watches of an
// earlier call show what is known. It reports an entry that is deleted while it waits without any read.
func (s *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	return s.await(ctx, known, false)
}

// await returns the entries under the keys as soon as some of them differ from what is known, or at
// once if now is set. A watch stays on each.
func (s *session) await(ctx context.Context, known []backend.Entry, now bool) ([]backend.Entry, error) {
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	a := s.begin(known, now)
	defer s.watches.leaveAll(a)
	for {
		if seen, done, err := a.look(&s.watches); done || err != nil {
			s.bury(known, seen)
			return seen, err
		}
		if err := s.Wait(ctx, a.waker); err != nil {
			return nil, err
		}
	}
}

// begin starts an await, and joins the watches of the known entries.
func (s *session) begin(known []backend.Entry, now bool) *awaiting {
	r := &s.watches
	a := &awaiting{known: known, waker: driver.NewWaker(), watches: make([]*watch, len(known)), reads: make([]uint64, len(known)), now: now}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.since = r.pos
	for i, e := range known {
		t := r.join(a.waker, watchKey{s.path(e.Key), dataWatch})
		a.watches[i], a.reads[i] = t, t.reads
	}
	return a
}

// leaveAll ends an await.
func (r *registry) leaveAll(a *awaiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range a.watches {
		r.leave(a.waker, t)
	}
}

// bury remembers which entries are gone: own ones, and those that are never created again.
func (s *session) bury(known, seen []backend.Entry) {
	for i, e := range seen {
		own := known[i].Session == s.ID() && !e.Is(known[i])
		if own {
			s.ended(e.Key, known[i].Rev)
		}
		absent := !e.Exists() && known[i].Exists()
		if absent && (own || isEnqueued(e.Key)) || own && e.Rev > known[i].Rev {
			s.buried(e.Key, known[i].Rev)
		}
	}
}

// awaiting is one call of await.
type awaiting struct {
	known   []backend.Entry
	waker   driver.Waker
	watches []*watch
	reads   []uint64 // reads of each watch that had begun before the call
	since   uint64   // events before the call, which may be about an earlier incarnation
	now     bool
}

// look decides whether there is something to return, and starts the reads that it needs to decide.
func (a *awaiting) look(r *registry) ([]backend.Entry, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen := a.atDeletion(); seen != nil {
		return seen, true, nil
	}
	seen := make([]backend.Entry, len(a.known))
	complete, differs := true, a.now
	for i, t := range a.watches {
		e := a.known[i]
		switch {
		case t.status == failed && t.reads > a.reads[i]:
			return nil, false, readError(t.err)
		case t.valid():
			seen[i] = t.entry
		case a.goneForGood(i):
			seen[i] = backend.Entry{Key: e.Key}
		default:
			complete = false
			// An absent entry needs a watch if its creation is awaited, or if it might be created again
			// before another entry changes.
			r.read(t, !e.Exists() && !a.now || len(a.known) > 1 && !isEnqueued(e.Key))
			continue
		}
		differs = differs || !seen[i].Same(e)
	}
	return seen, complete && differs, nil
}

// goneForGood reports whether a read of this call found nothing, and that is conclusive: the key is
// never used twice, or it is the only one asked for, so that there is no order to keep.
func (a *awaiting) goneForGood(i int) bool {
	t := a.watches[i]
	if t.status != absent {
		return false
	}
	return isEnqueued(t.entry.Key) ||
		len(a.known) == 1 && t.reads > a.reads[i] && (a.now || a.known[i].Exists())
}

// atDeletion returns the present entries, or the entries at the first event, if that was a deletion and
// everything else is known at that point. The present is the better answer: suppose a candidate waits
// for its turn and was deleted right after its predecessor, perhaps in the same transaction. If both
// notices have come, Await does not report that its turn has come.
func (a *awaiting) atDeletion() []backend.Entry {
	var first *watch
	for _, t := range a.watches {
		if t.status == armed && t.firedAt > a.since && (first == nil || t.firedAt < first.firedAt) {
			first = t
		}
	}
	if first == nil || !first.gone {
		return nil
	}
	then, now := make([]backend.Entry, len(a.watches)), make([]backend.Entry, len(a.watches))
	known := true // whether now is known
	for i, t := range a.watches {
		none, lasting := backend.Entry{Key: a.known[i].Key}, isEnqueued(a.known[i].Key)
		switch {
		case t == first:
			then[i], now[i] = none, none
			known = known && lasting // else it may have been created again
		case t.status == absent && lasting:
			then[i], now[i] = none, none
		case t.status == armed && t.armedAt < first.firedAt && (t.firedAt == 0 || t.firedAt > first.firedAt):
			then[i], now[i] = t.entry, t.entry
			if t.firedAt > 0 {
				now[i] = none
				known = known && t.gone && lasting
			}
		default:
			return nil
		}
	}
	if known {
		then = now
	}
	for i, e := range then {
		if a.now || !e.Same(a.known[i]) {
			return then
		}
	}
	return nil // known said already that it is gone
}

// now reads one entry, or takes it from its watch, and leaves a watch. A zero Rev means that there is
// none.
func (s *session) now(ctx context.Context, key string) (backend.Entry, error) {
	seen, err := s.await(ctx, []backend.Entry{{Key: key}}, true)
	if err != nil {
		return backend.Entry{}, err
	}
	return seen[0], nil
}

// AwaitList implements backend.Driver. Each caller lists for itself when the directory has changed.
func (s *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	l, err := s.awaitList(ctx, known)
	return l, readError(err)
}

func (s *session) awaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	r, w := &s.watches, driver.NewWaker()
	r.mu.Lock()
	t := r.join(w, watchKey{s.path(known.Dir), childWatch})
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leave(w, t)
	}()
	for {
		r.mu.Lock()
		current, removed := t.valid() && t.rev == known.Rev, t.removed
		r.mu.Unlock()
		if !current && !removed {
			l, err := s.listWatched(ctx, t.key)
			switch {
			case err != nil:
				return backend.Listing{}, err
			case l.Rev != known.Rev:
				return l, nil
			case l.Rev == 0:
				// No such directory, so a child watch cannot be set. Wait for its creation.
				if _, err := s.await(ctx, []backend.Entry{{Key: known.Dir}}, false); err != nil {
					return backend.Listing{}, err
				}
			}
			continue // the watch may have fired while it was being noted
		}
		if err := s.Wait(ctx, w); err != nil {
			return backend.Listing{}, err
		}
	}
}

// listWatched lists a directory and leaves a watch. Rev is zero if there is no such directory.
func (s *session) listWatched(ctx context.Context, key watchKey) (backend.Listing, error) {
	r, dir := &s.watches, s.key(key.path)
	c, err := read(ctx, s, func() (children, error) {
		// As in registry.read: noted before the request is queued. Several callers may be here at once;
		// each reply that no event has overtaken is valid.
		r.mu.Lock()
		t := r.of(key) // the caller may have left
		t.pending++
		began := reading{t: t, gen: r.gen, events: t.events}
		r.mu.Unlock()
		names, stat, err := s.childrenW(key.path)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.end(began, err) {
			t.status, t.rev, t.armedAt, t.firedAt = armed, listRev(stat), r.pos, 0
		}
		r.sweep(t)
		return children{names, stat}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return backend.Listing{Dir: dir}, nil
	case err != nil:
		return backend.Listing{}, err
	}
	return s.listing(dir, parseNames(c.names), listRev(c.stat)), nil
}
