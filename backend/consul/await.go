package consul

import (
	"context"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Await implements backend.Driver. Each key has a blocking query, which needs a connection for as long
// as it waits. With several keys, when one has changed all of them are read once more, as one snapshot:
// that is rule 4.
func (s *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	var keys []string // each once
	at := make([]int, len(known))
	for i, e := range known {
		at[i] = slices.Index(keys, e.Key)
		if at[i] < 0 {
			at[i] = len(keys)
			keys = append(keys, e.Key)
		}
	}
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	newest := s.learned.newest.Load()
	r, w := &s.watches, driver.NewWaker()
	all := make([]*watch, len(keys))
	r.mu.Lock()
	for i, key := range keys {
		e := known[slices.Index(at, i)]
		index := indexOf(e)
		if !s.learned.seen(index) {
			index = 0
		}
		all[i] = r.join(w, watchKey{key: key}, e, backend.Listing{}, index)
	}
	r.mu.Unlock()
	defer func() {
		for _, t := range all {
			r.leave(w, t)
		}
	}()
	for {
		seen, changed, whole, err := s.look(known, at, all, newest)
		if err != nil {
			return nil, err
		}
		if changed && whole {
			s.stands(seen)
		}
		if changed && !whole && len(keys) > 1 {
			now, err := s.snapshot(ctx, keys)
			if err != nil {
				return nil, err
			}
			for i, k := range at {
				seen[i] = now[k]
			}
			if slices.EqualFunc(seen, known, backend.Entry.Same) { // an operator has restored the previous state
				r.doubt(all)
				continue
			}
			s.stands(now)
		}
		if changed {
			for i, e := range seen {
				// Gone, and perhaps taken by another since.
				if known[i].Session == s.ID() && known[i].Rev != e.Rev && s.over(ctx) {
					return nil, s.LostError()
				}
			}
			return seen, nil
		}
		if err := s.Wait(ctx, w); err != nil {
			return nil, err
		}
	}
}

// over checks whether the session has ended, when an entry of its own is gone: the servers remove both
// at once, and report that to nobody.
func (s *session) over(ctx context.Context) bool {
	entry, err := ride(ctx, s, s.read)
	if err == nil && entry == nil {
		s.Lose(errExpired)
	}
	if s.Ctx.Err() != nil {
		return true
	}
	s.mark(ctx)
	return false
}

// snapshot reads all keys at one instant, not before what the watches have shown. An enqueued entry
// that is gone never comes back, and is not read again: in a handover one key is left, and a read of
// one key is the quickest request there is.
func (s *session) snapshot(ctx context.Context, keys []string) ([]backend.Entry, error) {
	now := make([]backend.Entry, len(keys))
	var rest []int
	for i, key := range keys {
		now[i].Key = key
		if !s.learned.gone.Has(key) {
			rest = append(rest, i)
		}
	}
	switch len(rest) {
	case 0:
	case 1:
		e, err := s.get(ctx, keys[rest[0]])
		if err != nil {
			return nil, err
		}
		now[rest[0]] = e
	default:
		return s.getAll(ctx, keys)
	}
	return now, nil
}

// look returns what the watches show, whether it differs from known, and whether it is a snapshot that is no older
// than newest.
func (s *session) look(known []backend.Entry, at []int, all []*watch, newest uint64) (seen []backend.Entry, changed, whole bool, err error) {
	r := &s.watches
	r.mu.Lock()
	defer r.mu.Unlock()
	seen = make([]backend.Entry, len(known))
	for i, e := range known {
		t := all[at[i]]
		if t.err != nil {
			return nil, false, false, t.err
		}
		if t.shows() && !t.entry.Same(e) {
			seen[i], changed = t.entry, true
			continue
		}
		seen[i] = e
		r.ensure(t)
	}
	return seen, changed, changed && r.whole(all, newest), nil
}

// stands notes which of this session's enqueued entries a snapshot has shown, if it has shown others to
// be gone: see Predecessor.
func (s *session) stands(snapshot []backend.Entry) {
	var gone []string
	for _, e := range snapshot {
		if !e.Exists() && isEnqueued(e.Key) {
			gone = append(gone, e.Key)
		}
	}
	for _, e := range snapshot {
		if len(gone) > 0 && e.Exists() && e.Session == s.ID() && isEnqueued(e.Key) {
			s.learned.standing.Put(e.Key, gone)
		}
	}
}

// AwaitList implements backend.Driver.
func (s *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	if err := s.Over(ctx); err != nil {
		return backend.Listing{}, err
	}
	r, w := &s.watches, driver.NewWaker()
	index := known.Rev
	if !s.learned.seen(index) {
		index = 0
	}
	r.mu.Lock()
	t := r.join(w, watchKey{key: known.Dir, list: true}, backend.Entry{}, known, index)
	r.mu.Unlock()
	defer r.leave(w, t)
	for {
		r.mu.Lock()
		if t.err != nil {
			defer r.mu.Unlock()
			return backend.Listing{}, t.err
		}
		if t.shows() && !sameKeys(t.listing, known) {
			now := t.listing
			r.mu.Unlock()
			if slices.ContainsFunc(known.Keys, func(key string) bool {
				return owner(key) == s.ID() && !slices.Contains(now.Keys, key)
			}) && s.over(ctx) {
				return backend.Listing{}, s.LostError()
			}
			return now, nil
		}
		r.ensure(t)
		r.mu.Unlock()
		if err := s.Wait(ctx, w); err != nil {
			return backend.Listing{}, err
		}
	}
}

// sameKeys reports whether two listings are the same: no name is ever used twice.
func sameKeys(a, b backend.Listing) bool { return slices.Equal(a.Keys, b.Keys) }
