package mutants

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
)

// readMutants break rules about what is read at once.
var readMutants = []Mutant{
	{
		Name:   "read from a cache",
		Breaks: "Get returns what it read under the key the last time.",
		Rules:  rules{Backend: {"write/update"}},
		session: calls(func(s *backend.Session, o *over) {
			var cache sync.Map
			gets(func(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
				e, err := s.Get(ctx, key)
				if isNoEntry(err) {
					cache.Delete(key)
				} else if old, had := cache.Swap(key, e); had {
					return old.(backend.Entry), nil
				}
				return e, err
			})(s, o)
		}),
	}, {
		Name:   "refused by what is not read",
		Breaks: "A session whose commit was refused goes on to read what there was when it was opened.",
		Rules:  rules{Backend: {"read/decided"}},
		session: calls(func(s *backend.Session, o *over) {
			var refused, done atomic.Bool
			all(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
				made, err := c.by(ctx, s)
				if err != nil {
					refused.Store(true)
				} else {
					done.Store(true)
				}
				return made, err
			}), gets(func(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
				if refused.Load() && !done.Load() {
					return backend.Entry{}, backend.ErrNoEntry
				}
				return s.Get(ctx, key)
			}))(s, o)
		}),
	}, {
		Name:   "listing upside down",
		Breaks: "List has the youngest entry first.",
		Rules:  rules{Backend: {"read/list", "list/await"}, "fair": {"view/candidates"}},
		session: calls(answering(func(c *backend.Call) {
			c.Listing.Keys = slices.Clone(c.Listing.Keys) // it may be shared
			slices.Reverse(c.Listing.Keys)
		}, backend.CallList, backend.CallAwaitList)),
	}, {
		Name:   "foreign child taken for an entry",
		Breaks: "A child whose name ends in ten digits is taken for an enqueued entry, whoever made it.",
		Rules:  rules{Backend: {"read/foreign"}, "fair": {"data/foreign-children"}},
		session: calls(precedes(func(ctx context.Context, s *backend.Session, e backend.Entry) (backend.Entry, error) {
			before, err := s.Predecessor(ctx, e)
			if err != nil || before.Exists() {
				return before, err
			}
			alien, err := s.Get(ctx, backend.Parent(e.Key)+"/n_0000000001")
			if isNoEntry(err) {
				return backend.Entry{}, nil
			}
			return alien, err
		})),
	}, {
		Name:   "list read before it is watched",
		Breaks: "AwaitList reads first and subscribes then: a change in between is missed.",
		Rules:  rules{Backend: {"list/nothing-missed"}},
		session: calls(lists(func(ctx context.Context, s *backend.Session, known backend.Listing) (backend.Listing, error) {
			read, err := s.List(ctx, known.Dir)
			if err != nil || read.Rev != known.Rev {
				return read, err
			}
			gap()
			if read, err = s.List(ctx, known.Dir); err != nil {
				return read, err
			}
			return s.AwaitList(ctx, read)
		})),
	}, {
		Name:   "list never waited for",
		Breaks: "AwaitList returns at once, whether or not there is a change.",
		Rules:  rules{Backend: {"list/await"}},
		session: calls(lists(func(ctx context.Context, s *backend.Session, known backend.Listing) (backend.Listing, error) {
			return s.List(ctx, known.Dir)
		})),
	}, {
		Name:   "entry enqueued under another key first",
		Breaks: "Enqueue makes an entry under a key that it gives up for another, in two steps.",
		Rules:  rules{Backend: {"list/while-enqueued"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if err != nil || !c.is(backend.OpEnqueue) {
				return made, err
			}
			gap()
			made, err = s.Commit(ctx, nil, backend.Delete(made[0]), c.ops[0])
			if err != nil {
				return nil, err
			}
			return made[1:], nil
		})),
	},
}
