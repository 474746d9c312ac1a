package consul

import (
	"context"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

const (
	// remembered is how many of the keys before an entry are kept. Keeping all would make the memory of
	// N candidates quadratic in N.
	remembered = 32
	// readBack is how many of them are read at first: as a rule the nearest exists. If they are all
	// gone, as after leaders that resigned before they were marked, the rest is read at once.
	readBack = 3
)

// Predecessor implements backend.Driver. The first time it asks for the entry that the tail names, or
// lists the directory. Later it goes back through the keys that it remembers, none of which can come
// back: one request, or none if an Await has just shown that e exists and all of them are gone, at one
// instant.
func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	if !isEnqueued(e.Key) {
		return backend.Entry{}, fmt.Errorf("%w that was enqueued", backend.ErrNoEntry)
	}
	if err := s.Over(ctx); err != nil {
		return backend.Entry{}, err
	}
	for most := readBack; ; most = remembered {
		before, ok := s.learned.before.Get(e.Key)
		switch {
		case !ok:
			return s.listBefore(ctx, e)
		case before.tail != 0:
			return s.last(ctx, e, before)
		}
		// What waits have shown to be gone: a handover finds this.
		var gone []string
		for n := len(before.keys); n > 0 && s.learned.gone.Has(before.keys[n-1]); n-- {
			gone = append(gone, before.keys[n-1])
			before.keys = before.keys[:n-1]
		}
		if len(before.keys) == 0 && before.all && s.learned.stood(e.Key, gone) {
			return backend.Entry{}, nil
		}
		last := before.keys[max(0, len(before.keys)-most):]
		seen, err := s.getAll(ctx, append([]string{e.Key}, last...))
		if err != nil {
			return backend.Entry{}, err
		}
		if seen[0].Rev != e.Rev {
			s.learned.before.Forget(e.Key)
			return backend.Entry{}, backend.ErrNoEntry
		}
		for _, p := range slices.Backward(seen[1:]) {
			if p.Exists() {
				return p, nil
			}
			before.keys = before.keys[:len(before.keys)-1]
		}
		switch {
		case len(before.keys) > 0:
			s.learned.before.Put(e.Key, before)
		case before.all:
			return backend.Entry{}, nil
		default:
			s.learned.before.Forget(e.Key)
		}
	}
}

// listBefore lists the directory, and remembers what is before e. If a list lacks e, Consul may have
// left out what the token may not, or not yet, read: see errors.go.
func (s *session) listBefore(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	var entries []backend.Entry
	i := -1
	var refused bout
	for pause := (driver.Pause{}); ; {
		var err error
		if entries, _, err = s.list(ctx, backend.Parent(e.Key)); err != nil {
			return backend.Entry{}, err
		}
		if i = slices.IndexFunc(entries, func(o backend.Entry) bool { return o.Key == e.Key && o.Rev == e.Rev }); i >= 0 {
			break
		}
		now, err := s.getAll(ctx, []string{e.Key})
		if err != nil {
			return backend.Entry{}, err
		}
		if now[0].Rev != e.Rev {
			return backend.Entry{}, backend.ErrNoEntry
		}
		if err = fmt.Errorf("%w: a list leaves %s out, which the client's token may not read there", backend.ErrDenied, e.Key); refused.ends(s, err) {
			return backend.Entry{}, err
		}
		if err = s.Pause(ctx, &pause); err != nil {
			return backend.Entry{}, err
		}
	}
	s.learned.few.Put(backend.Parent(e.Key), len(entries) <= remembered)
	before := ahead{all: i <= remembered}
	for _, p := range entries[max(0, i-remembered):i] {
		before.keys = append(before.keys, p.Key)
	}
	s.learned.before.Put(e.Key, before)
	if i == 0 {
		return backend.Entry{}, nil
	}
	return entries[i-1], nil
}
