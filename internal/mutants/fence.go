package mutants

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// fenceMutants break rules about what a term may write.
func fenceMutants() []Mutant {
	committing := func(commit func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error)) electorOf {
		return onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Commit = func(ctx context.Context, ops ...elector.Op) ([]backend.Entry, error) { return commit(ctx, t, ops) }
		})
	}
	return []Mutant{
		{
			Name:   "guard without conditions",
			Breaks: "Guard returns no conditions, so that a transaction of the user's own always goes through.",
			Rules:  map[string][]string{"fair": {"fence/guard"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Guard = func() elector.Guard { return elector.Guard{Session: t.Guard().Session} }
			}),
		},
		{
			Name:   "get remembers",
			Breaks: "Get returns what it has read before.",
			Rules:  map[string][]string{"fair": {"fence/get"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				var mu sync.Mutex
				read := make(map[string]backend.Entry)
				c.Get = func(ctx context.Context, key string) (backend.Entry, error) {
					mu.Lock()
					defer mu.Unlock()
					if e, is := read[key]; is && t.Valid() {
						return e, nil
					}
					e, err := t.Get(ctx, key)
					if err == nil {
						read[key] = e
					}
					return e, err
				}
			}),
		},
		{
			Name:   "get after the end",
			Breaks: "Get reads on when the term is over.",
			Rules:  map[string][]string{"fair": {"fence/get"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Get = func(ctx context.Context, key string) (backend.Entry, error) { return t.Guard().Session.Get(ctx, key) }
			}),
		},
		{
			Name:   "commit in parts",
			Breaks: "The ops of a term's commit are done one after the other.",
			Rules:  map[string][]string{"fair": {"fence/commit", "fence/conflict"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				if len(ops) < 2 {
					return t.Commit(ctx, ops...)
				}
				var made []backend.Entry
				for _, op := range ops {
					one, err := t.Commit(ctx, op)
					if err != nil {
						return nil, err
					}
					made = append(made, one...)
				}
				return made, nil
			}),
		},
		{
			Name:   "commit answers in another order",
			Breaks: "Commit returns what it made in the order in which it was done.",
			Rules:  map[string][]string{"fair": {"fence/commit"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				slices.Reverse(made)
				return made, err
			}),
		},
		{
			Name:   "conflict ends the term",
			Breaks: "A commit that finds an entry other than it expects is refused as if the term were over.",
			Rules:  map[string][]string{"fair": {"fence/conflict"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				if errors.Is(err, elector.ErrConflict) {
					err = elector.ErrDeposed
				}
				return made, err
			}),
		},
		{
			Name:   "bad input told without its key",
			Breaks: "The error of a commit that cannot be right does not say what is wrong with it.",
			Rules:  map[string][]string{"fair": {"fence/bad-input"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				if errors.Is(err, backend.ErrBadKey) {
					err = backend.ErrBadKey
				}
				return made, err
			}),
		},
		{
			Name:   "limit told as an unknown outcome",
			Breaks: "A commit over a limit of the service is said to have happened, perhaps.",
			Rules:  map[string][]string{"fair": {"fence/too-large", "fence/too-many"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				if errors.Is(err, backend.ErrTooLarge) {
					err = elector.ErrIndeterminate
				}
				return made, err
			}),
		},
		{
			Name:   "end of the term kept from the writer",
			Breaks: "A commit after the term has ended does not say that it was deposed, but only that a context has ended.",
			Rules:  map[string][]string{"fair": {"fence/ended", "fence/frozen"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				if errors.Is(err, elector.ErrDeposed) {
					err = context.Canceled
				}
				return made, err
			}),
		},
		{
			Name:   "refused write told to its caller only",
			Breaks: "A term goes on after the service has refused its write for good.",
			Rules:  map[string][]string{"fair": {"fence/frozen"}},
			trusted: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if errors.Is(err, backend.ErrCondition) {
						err = errors.New("refused")
					}
					return made, err
				}
			}),
		},
		{
			Name:   "queued write without its guards",
			Breaks: "A commit that waits for the link loses its conditions meanwhile.",
			Rules:  map[string][]string{"fair": {"fence/queued"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if s.State() == backend.Suspended && len(ops) > 0 {
						guards = nil
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "commit given up at once",
			Breaks: "A commit that is cancelled says ErrIndeterminate as if its term were over.",
			Rules:  map[string][]string{"fair": {"fence/cancel"}},
			elector: committing(func(ctx context.Context, t *elector.Term, ops []elector.Op) ([]backend.Entry, error) {
				made, err := t.Commit(ctx, ops...)
				if err != nil && ctx.Err() != nil {
					err = errors.Join(err, elector.ErrDeposed)
				}
				return made, err
			}),
		},
		{
			Name:   "proclaimed value not published",
			Breaks: "Proclaim returns nil and writes nothing.",
			Rules:  map[string][]string{"fair": {"term/proclaim", "view/observe"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Proclaim = func(context.Context, []byte) error { return nil }
			}),
		},
	}
}
