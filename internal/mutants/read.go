package mutants

import (
	"context"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// readMutants break rules about what is read at once.
func readMutants() []Mutant {
	return []Mutant{
		{
			Name:   "read from a cache",
			Breaks: "Get returns what it read under the key the last time.",
			Rules:  map[string][]string{Backend: {"read/get", "write/update"}},
			session: calls(func(s *backend.Session, o *over) {
				var mu sync.Mutex
				cache := make(map[string]backend.Entry)
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					e, err := s.Get(ctx, key)
					mu.Lock()
					defer mu.Unlock()
					old, had := cache[key]
					if err == nil {
						cache[key] = e
					} else {
						delete(cache, key)
					}
					if had {
						return old, nil
					}
					return e, err
				}
			}),
		},
		{
			Name:   "refused by what is not read",
			Breaks: "A session whose commit was refused goes on to read what there was when it was opened.",
			Rules:  map[string][]string{Backend: {"read/decided"}},
			session: calls(func(s *backend.Session, o *over) {
				var refused, done bool
				var mu sync.Mutex
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					mu.Lock()
					defer mu.Unlock()
					refused, done = refused || err != nil, done || err == nil
					return made, err
				}
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					mu.Lock()
					behind := refused && !done
					mu.Unlock()
					if behind {
						return backend.Entry{}, backend.ErrNoEntry
					}
					return s.Get(ctx, key)
				}
			}),
		},
		{
			Name:   "listing upside down",
			Breaks: "List has the youngest entry first.",
			Rules:  map[string][]string{Backend: {"read/list", "list/await"}, "fair": {"view/late-joiner", "view/candidates"}},
			session: calls(func(s *backend.Session, o *over) {
				turn := func(l backend.Listing, err error) (backend.Listing, error) {
					l.Keys = slices.Clone(l.Keys) // it may be shared
					slices.Reverse(l.Keys)
					return l, err
				}
				o.list = func(ctx context.Context, dir string) (backend.Listing, error) { return turn(s.List(ctx, dir)) }
				o.awaitList = func(ctx context.Context, known backend.Listing) (backend.Listing, error) {
					return turn(s.AwaitList(ctx, known))
				}
			}),
		},
		{
			Name:   "foreign child taken for an entry",
			Breaks: "A child whose name ends in ten digits is taken for an enqueued entry, whoever made it.",
			Rules:  map[string][]string{Backend: {"read/foreign"}, "fair": {"data/foreign-children"}},
			session: calls(func(s *backend.Session, o *over) {
				o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
					before, err := s.Predecessor(ctx, e)
					if err != nil || before.Exists() {
						return before, err
					}
					alien, err := s.Get(ctx, backend.Parent(e.Key)+"/n_0000000001")
					if isNoEntry(err) {
						return backend.Entry{}, nil
					}
					return alien, err
				}
			}),
		},
		{
			Name:   "list read before it is watched",
			Breaks: "AwaitList reads first and subscribes then: a change in between is missed.",
			Rules:  map[string][]string{Backend: {"list/nothing-missed"}},
			session: calls(func(s *backend.Session, o *over) {
				o.awaitList = func(ctx context.Context, known backend.Listing) (backend.Listing, error) {
					read, err := s.List(ctx, known.Dir)
					if err != nil || read.Rev != known.Rev {
						return read, err
					}
					gap()
					if read, err = s.List(ctx, known.Dir); err != nil {
						return read, err
					}
					return s.AwaitList(ctx, read)
				}
			}),
		},
		{
			Name:   "list never waited for",
			Breaks: "AwaitList returns at once, whether or not there is a change.",
			Rules:  map[string][]string{Backend: {"list/await", "list/await-absent"}},
			session: calls(func(s *backend.Session, o *over) {
				o.awaitList = func(ctx context.Context, known backend.Listing) (backend.Listing, error) {
					return s.List(ctx, known.Dir)
				}
			}),
		},
		{
			Name:   "entry enqueued under another key first",
			Breaks: "Enqueue makes an entry under a key that it gives up for another, in two steps.",
			Rules:  map[string][]string{Backend: {"list/while-enqueued"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if err != nil || len(ops) != 1 || ops[0].Kind != backend.OpEnqueue {
						return made, err
					}
					gap()
					made, err = s.Commit(ctx, nil, backend.Delete(made[0]), ops[0])
					if err != nil {
						return nil, err
					}
					return made[1:], nil
				}
			}),
		},
	}
}
