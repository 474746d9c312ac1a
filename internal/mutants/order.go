package mutants

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// sessionOf is the open of a mutant that needs no more than the session.
func sessionOf(mutate func(backend.Session) backend.Session) func(backend.Backend, backend.OpenOptions, backend.Session) backend.Session {
	return func(_ backend.Backend, _ backend.OpenOptions, s backend.Session) backend.Session { return mutate(s) }
}

// inSession is the campaign of a mutant whose recipe is right but for what it makes of
// its session.
func inSession(mutate func(backend.Session) backend.Session) func(campaign, context.Context, *elector.Candidacy) (elector.Claim, error) {
	return func(inner campaign, ctx context.Context, c *elector.Candidacy) (elector.Claim, error) {
		with := *c
		with.Session = mutate(c.Session)
		return inner(ctx, &with)
	}
}

// orderMutants break rules about what happens before what. They show under a scheduler
// that decides it.
func orderMutants() []Mutant {
	return []Mutant{
		{
			Name:   "event lost between read and watch",
			Breaks: "Await reads first and subscribes then: a change in between is missed.",
			Rules:  map[string][]string{Backend: {"await/nothing-missed"}},
			open: sessionOf(func(s backend.Session) backend.Session {
				return &over{Session: s, await: func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					read, err := now(ctx, s, known)
					if err != nil || differ(read, known) {
						return read, err
					}
					gap()
					subscribed, err := now(ctx, s, known)
					if err != nil {
						return nil, err
					}
					return s.Await(ctx, subscribed...)
				}}
			}),
		},
		{
			Name:   "guard checked before the write",
			Breaks: "Commit asks whether the guards hold, and writes then, in two steps.",
			Rules:  map[string][]string{Backend: {"guard/race"}},
			open: sessionOf(func(s backend.Session) backend.Session {
				return &over{Session: s, commit: func(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
					if len(guards) == 0 || len(ops) == 0 {
						return s.Commit(ctx, guards, ops...)
					}
					if _, err := s.Commit(ctx, guards); err != nil {
						return nil, err
					}
					gap()
					return s.Commit(ctx, nil, ops...)
				}}
			}),
		},
		{
			Name:   "guard ignored",
			Breaks: "Commit writes whether or not the guards hold.",
			Rules:  map[string][]string{Backend: {"guard/held", "guard/unchanged", "guard/race", "guard/incarnations"}},
			open: sessionOf(func(s backend.Session) backend.Session {
				return &over{Session: s, commit: func(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
					if len(ops) > 0 {
						guards = nil
					}
					return s.Commit(ctx, guards, ops...)
				}}
			}),
		},
		{
			Name:   "delete hits another incarnation",
			Breaks: "Delete and Drop remove whatever stands under the key, so that the resignation of a zombie deletes its successor.",
			Rules:  map[string][]string{Backend: {"guard/incarnations"}},
			open: sessionOf(func(s backend.Session) backend.Session {
				remove := func(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
					ops = slices.Clone(ops)
					for i, op := range ops {
						if op.Kind != backend.OpDelete {
							continue
						}
						if e, err := s.Get(ctx, op.Key); err == nil {
							ops[i] = backend.Delete(e)
						}
					}
					return s.Commit(ctx, guards, ops...)
				}
				return &over{
					Session: s,
					commit:  remove,
					drop: func(ctx context.Context, e backend.Entry) error {
						if now, err := s.Get(ctx, e.Key); err == nil && now.Rev != e.Rev {
							_, err = s.Commit(ctx, nil, backend.Delete(now))
							return err
						}
						return s.Drop(ctx, e)
					},
				}
			}),
		},
		{
			Name:   "predecessor skipped",
			Breaks: "Predecessor returns the one before the predecessor, so that who stands second takes itself for the oldest.",
			Rules:  map[string][]string{Backend: {"read/predecessor"}},
			open: sessionOf(func(s backend.Session) backend.Session {
				return &over{Session: s, predecessor: func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
					before, err := s.Predecessor(ctx, e)
					if err != nil || !before.Exists() {
						return before, err
					}
					skipped, err := s.Predecessor(ctx, before)
					if errors.Is(err, backend.ErrNoEntry) {
						return backend.Entry{}, nil
					}
					return skipped, err
				}}
			}),
		},
		{
			Name:   "predecessor's going taken for the win",
			Breaks: "A candidate leads when its predecessor goes, whether or not that one led.",
			Rules:  map[string][]string{"fair": {"term/order"}},
			campaign: inSession(func(s backend.Session) backend.Session {
				return &over{Session: s, predecessor: func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
					before, err := s.Predecessor(ctx, e)
					if err == nil && before.Exists() {
						c := layout.DecodeCandidate(before.Value)
						c.Leads = true
						before.Value = c.Encode()
					}
					return before, err
				}}
			}),
		},
		{
			Name:   "win without own entry",
			Breaks: "A candidate that waits looks at its predecessor only, and leads with an entry that is gone.",
			Rules:  map[string][]string{"fair": {"data/deleted-at-handover"}},
			campaign: inSession(func(s backend.Session) backend.Session {
				return &over{Session: s, await: func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known[1:]...)
					return append([]backend.Entry{known[0]}, now...), err
				}}
			}),
		},
	}
}

// differ tells whether any entry is not the known one.
func differ(read, known []backend.Entry) bool {
	for i, e := range known {
		if !read[i].Same(e) {
			return true
		}
	}
	return false
}
