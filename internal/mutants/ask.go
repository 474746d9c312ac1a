package mutants

import (
	"context"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// askMutants break rules about leaders that are asked to go.
func askMutants() []Mutant {
	return []Mutant{
		{
			Name:   "deaf leader",
			Breaks: "A term does not tell that it is asked to go.",
			Rules:  map[string][]string{"fair": {"ask/run", "ask/by-hand", "ask/proclaim", "ask/suspended"}, "kafka": {"ask/run"}},
			elector: onTerm(func(_ *elector.Term, c *elector.TermConfig) {
				c.Asked, c.Request = nil, nil
			}),
		},
		{
			Name:   "asked is deposed",
			Breaks: "A term that is asked to go ends by itself, while its leader still works.",
			Rules:  map[string][]string{"fair": {"ask/run", "ask/by-hand"}, "unfair": {"ask/run"}},
			elector: onTerm(func(t *elector.Term, _ *elector.TermConfig) {
				go func() {
					select {
					case <-t.Asked():
						_ = t.Resign(context.Background())
					case <-t.Context().Done():
					}
				}()
			}),
		},
		{
			Name:   "request is kept for the next term",
			Breaks: "A candidate that was asked to go takes its next term for asked, too.",
			Rules:  map[string][]string{"fair": {"ask/run", "ask/lost"}},
			elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
				var before elector.Request
				asked := make(chan struct{})
				return onTerm(func(t *elector.Term, c *elector.TermConfig) {
					c.Asked = asked
					c.Request = func() (elector.Request, bool) {
						if r, asked := t.Request(); asked {
							return r, true
						}
						return before, before != elector.Request{}
					}
					go func() {
						select {
						case <-t.Asked():
							if before == (elector.Request{}) {
								before, _ = t.Request()
								close(asked)
							}
						case <-t.Context().Done():
						}
					}()
				})(cfg, e)
			},
		},
		{
			Name:   "request is written over",
			Breaks: "A leader publishes a value without a look at what stands in its entry.",
			Rules:  map[string][]string{"fair": {"ask/proclaim"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if len(ops) == 1 && ops[0].Kind == backend.OpUpdate {
						gap()
						conditions = slices.DeleteFunc(slices.Clone(conditions), func(c backend.Condition) bool { return c.Exact && c.Entry.Key == ops[0].Key })
					}
					return s.Commit(ctx, conditions, ops...)
				}
			}),
		},
	}
}
