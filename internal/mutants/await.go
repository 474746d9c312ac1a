package mutants

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// awaitMutants break rules about waiting for a change.
var awaitMutants = []Mutant{
	{
		Name:   "change before the wait ignored",
		Breaks: "Await waits for the next change, though the entries are not as known any more.",
		Rules:  rules{Backend: {"await/wakes"}, "fair": {"data/predecessor-gone"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			if slices.ContainsFunc(known, backend.Entry.IsUnknown) {
				return s.Await(ctx, known...) // that is a read
			}
			read, err := now(ctx, s, known)
			if err != nil {
				return nil, err
			}
			return s.Await(ctx, read...)
		})),
	}, {
		Name:   "new value not noticed",
		Breaks: "Await returns when an entry comes or goes, but not when it has a new value.",
		Rules:  rules{Backend: {"await/wakes"}, "fair": {"view/observe", "view/observe-lost"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			for at := known; ; {
				now, err := s.Await(ctx, at...)
				if err != nil || slices.ContainsFunc(now, func(e backend.Entry) bool {
					return !slices.ContainsFunc(known, func(k backend.Entry) bool { return k.Key == e.Key && k.Rev == e.Rev })
				}) {
					return now, err
				}
				at = now
			}
		})),
	}, {
		Name:   "wait that ends without a change",
		Breaks: "Await returns after the session's timeout though nothing has changed.",
		Rules:  rules{Backend: {"await/blocks"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			bound, cancel := context.WithTimeout(ctx, s.TTL())
			defer cancel()
			now, err := s.Await(bound, known...)
			if err != nil && bound.Err() != nil && ctx.Err() == nil {
				return known, nil
			}
			return now, err
		})),
	}, {
		Name:   "answers in the order of the keys",
		Breaks: "What Await returns is in the order of the keys instead of the order given.",
		Rules:  rules{Backend: {"await/several"}},
		session: calls(answering(func(c *backend.Call) {
			slices.SortFunc(c.Entries, func(a, b backend.Entry) int { return cmp.Compare(a.Key, b.Key) })
		}, backend.CallAwait)),
	}, {
		Name:   "entries read one by one",
		Breaks: "Await reads one entry after the other, so that it can show a later change without an earlier one.",
		Rules:  rules{Backend: {"await/in-order", "await/snapshot"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			var read []backend.Entry
			for _, e := range known {
				one, err := now(ctx, s, []backend.Entry{e})
				if err != nil {
					return nil, err
				}
				read = append(read, one...)
				gap()
			}
			if differ(read, known) {
				return read, nil
			}
			return s.Await(ctx, known...)
		})),
	}, {
		Name:   "cancelled wait takes the watch along",
		Breaks: "When one Await of a key is cancelled, no other of the session hears of that key again.",
		Rules:  rules{Backend: {"await/again"}},
		session: calls(func(s *backend.Session, o *over) {
			var deaf sync.Map // to which keys
			awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
				if _, is := deaf.Load(known[0].Key); is {
					return s.Await(ctx, backend.Entry{Key: "/never"})
				}
				now, err := s.Await(ctx, known...)
				if err != nil && ctx.Err() != nil {
					deaf.Store(known[0].Key, true)
				}
				return now, err
			})(s, o)
		}),
	}, {
		Name:   "operator's delete not noticed",
		Breaks: "Await goes on when the whole directory of its entries is gone.",
		Rules:  rules{Backend: {"await/operator"}, "fair": {"data/election-deleted"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err != nil || now[0].Exists() || !known[0].Exists() {
				return now, err
			}
			if _, err := s.Get(ctx, backend.Parent(now[0].Key)); isNoEntry(err) {
				return s.Await(ctx, now...)
			}
			return now, nil
		})),
	}, {
		Name:   "own deletion not noticed",
		Breaks: "Await of an entry that the session itself has made does not return when somebody deletes it.",
		Rules:  rules{Backend: {"await/wakes"}, "fair": {"data/leader-deleted", "term/once"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err == nil && len(known) == 1 && known[0].Session == s.ID() && !now[0].Exists() {
				return s.Await(ctx, backend.Entry{Key: "/never"})
			}
			return now, err
		})),
	},
}
