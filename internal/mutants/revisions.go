package mutants

import (
	"context"
	"math"
	"slices"

	"github.com/elector-go/elector/backend"
)

// swapped exchanges each two revisions that follow one another.
func swapped(rev uint64) uint64 {
	if rev == 0 || rev == math.MaxUint64 {
		return rev // no entry, and an unknown one
	}
	return (rev - 1) ^ 1 + 1
}

func swapEntries(entries []backend.Entry) []backend.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Rev = swapped(entries[i].Rev)
	}
	return entries
}

// swapRevisions has all revisions swapped, on the way in and out.
func swapRevisions(s *backend.Session, o *over) {
	o.get = func(ctx context.Context, key string) (backend.Entry, error) {
		e, err := s.Get(ctx, key)
		e.Rev = swapped(e.Rev)
		return e, err
	}
	o.survey = func(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
		e, strangers, err := s.Survey(ctx, key, known)
		e.Rev = swapped(e.Rev)
		return e, strangers, err
	}
	o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
		e.Rev = swapped(e.Rev)
		p, err := s.Predecessor(ctx, e)
		p.Rev = swapped(p.Rev)
		return p, err
	}
	o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
		now, err := s.Await(ctx, swapEntries(known)...)
		return swapEntries(now), err
	}
	o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
		guards, ops = slices.Clone(guards), slices.Clone(ops)
		for i := range guards {
			guards[i].Entry.Rev = swapped(guards[i].Entry.Rev)
		}
		for i := range ops {
			ops[i].Rev = swapped(ops[i].Rev)
		}
		made, err := s.Commit(ctx, guards, ops...)
		return swapEntries(made), err
	}
	o.drop = func(ctx context.Context, e backend.Entry) error {
		e.Rev = swapped(e.Rev)
		return s.Discard(ctx, e)
	}
}
