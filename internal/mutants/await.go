package mutants

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

type awaiting = func(context.Context, ...backend.Entry) ([]backend.Entry, error)

// awaits is the opener of a mutant whose Await is made of another.
func awaits(worsen func(s *backend.Session) awaiting) *opener {
	return calls(func(s *backend.Session, o *over) { o.await = worsen(s) })
}

// awaitMutants break rules about waiting for a change.
func awaitMutants() []Mutant {
	return []Mutant{
		{
			Name:   "change before the wait ignored",
			Breaks: "Await waits for the next change, though the entries are not as known any more.",
			Rules:  map[string][]string{Backend: {"await/changed-already"}, "fair": {"data/predecessor-gone"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					if slices.ContainsFunc(known, backend.Entry.IsUnknown) {
						return s.Await(ctx, known...) // that is a read
					}
					read, err := now(ctx, s, known)
					if err != nil {
						return nil, err
					}
					return s.Await(ctx, read...)
				}
			}),
		},
		{
			Name:   "new value not noticed",
			Breaks: "Await returns when an entry comes or goes, but not when it has a new value.",
			Rules:  map[string][]string{Backend: {"await/wakes"}, "fair": {"view/observe", "view/observe-lost"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					for at := known; ; {
						now, err := s.Await(ctx, at...)
						if err != nil || slices.ContainsFunc(now, func(e backend.Entry) bool {
							return !slices.ContainsFunc(known, func(k backend.Entry) bool { return k.Key == e.Key && k.Rev == e.Rev })
						}) {
							return now, err
						}
						at = now
					}
				}
			}),
		},
		{
			Name:   "wait that ends without a change",
			Breaks: "Await returns after the session's timeout though nothing has changed.",
			Rules:  map[string][]string{Backend: {"await/blocks"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					bound, cancel := context.WithTimeout(ctx, s.TTL())
					defer cancel()
					now, err := s.Await(bound, known...)
					if err != nil && bound.Err() != nil && ctx.Err() == nil {
						return known, nil
					}
					return now, err
				}
			}),
		},
		{
			Name:   "answers in the order of the keys",
			Breaks: "What Await returns is in the order of the keys instead of the order given.",
			Rules:  map[string][]string{Backend: {"await/several"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					slices.SortFunc(now, func(a, b backend.Entry) int { return cmp.Compare(a.Key, b.Key) })
					return now, err
				}
			}),
		},
		{
			Name:   "entries read one by one",
			Breaks: "Await reads one entry after the other, so that it can show a later change without an earlier one.",
			Rules:  map[string][]string{Backend: {"await/in-order", "await/snapshot"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
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
				}
			}),
		},
		{
			Name:   "entries awaited apart",
			Breaks: "Await waits for each entry by itself, and shows the others as they were when it began.",
			Rules:  map[string][]string{Backend: {"await/snapshot"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					type change struct {
						at  int
						now []backend.Entry
						err error
					}
					changes := make(chan change, len(known))
					for i, e := range known {
						go func() {
							now, err := s.Await(ctx, e)
							changes <- change{i, now, err}
						}()
					}
					first := <-changes
					if first.err != nil {
						return nil, first.err
					}
					seen := slices.Clone(known)
					seen[first.at] = first.now[0]
					return seen, nil
				}
			}),
		},
		{
			Name:   "cancelled wait takes the watch along",
			Breaks: "When one Await of a key is cancelled, no other of the session hears of that key again.",
			Rules:  map[string][]string{Backend: {"await/again"}},
			session: awaits(func(s *backend.Session) awaiting {
				var mu sync.Mutex
				deaf := make(map[string]bool)
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					mu.Lock()
					wait := slices.ContainsFunc(known, func(e backend.Entry) bool { return deaf[e.Key] })
					mu.Unlock()
					if wait {
						return s.Await(ctx, backend.Entry{Key: "/never"})
					}
					now, err := s.Await(ctx, known...)
					if err != nil && ctx.Err() != nil {
						mu.Lock()
						defer mu.Unlock()
						for _, e := range known {
							deaf[e.Key] = true
						}
					}
					return now, err
				}
			}),
		},
		{
			Name:   "operator's delete not noticed",
			Breaks: "Await goes on when the whole directory of its entries is gone.",
			Rules:  map[string][]string{Backend: {"await/operator"}, "fair": {"data/election-deleted"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					if err != nil || now[0].Exists() || !known[0].Exists() {
						return now, err
					}
					if _, err := s.Get(ctx, backend.Parent(now[0].Key)); isNoEntry(err) {
						return s.Await(ctx, now...)
					}
					return now, nil
				}
			}),
		},
		{
			Name:   "own deletion not noticed",
			Breaks: "Await of an entry that the session itself has made does not return when somebody deletes it.",
			Rules:  map[string][]string{Backend: {"await/wakes"}, "fair": {"data/leader-deleted", "term/once"}},
			session: awaits(func(s *backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					if err == nil && len(known) == 1 && known[0].Session == s.ID() && !now[0].Exists() {
						return s.Await(ctx, backend.Entry{Key: "/never"})
					}
					return now, err
				}
			}),
		},
		{
			Name:    "one of many woken",
			Breaks:  "When an entry goes, one of those who wait for it is told, and no other.",
			Rules:   map[string][]string{"unfair": {"recipe/herd"}},
			session: awaits(wakeOne()),
		},
	}
}

// wakeOne tells one of those who wait that an entry is gone. The others are not told of what
// comes after it, either.
func wakeOne() func(s *backend.Session) awaiting {
	type incarnation struct {
		key string
		rev uint64
	}
	var mu sync.Mutex
	told := make(map[incarnation]bool)
	first := func(e backend.Entry) bool {
		mu.Lock()
		defer mu.Unlock()
		of := incarnation{e.Key, e.Rev}
		was := told[of]
		told[of] = true
		return !was
	}
	return func(s *backend.Session) awaiting {
		return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
			for asleep := false; ; asleep = !known[0].Exists() {
				now, err := s.Await(ctx, known...)
				if err != nil || len(known) > 1 || known[0].Session == s.ID() {
					return now, err
				}
				gone := known[0].Exists() && now[0].Rev != known[0].Rev
				if gone && first(known[0]) || !gone && !asleep {
					return now, nil
				}
				known = now
			}
		}
	}
}
