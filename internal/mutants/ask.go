package mutants

import (
	"github.com/elector-go/elector"
)

// askMutants break rules about leaders that are asked to go.
var askMutants = []Mutant{
	{
		Name:   "deaf leader",
		Breaks: "A term does not tell that it is asked to go.",
		Rules:  rules{"fair": {"ask/run", "ask/by-hand", "ask/proclaim", "ask/suspended"}, "kafka": {"ask/run"}},
		elector: onTerm(func(_ *elector.Term, c *elector.TermConfig) {
			c.Asked, c.Request = nil, nil
		}),
	}, {
		Name:   "request is kept for the next term",
		Breaks: "A candidate that was asked to go takes its next term for asked, too.",
		Rules:  rules{"fair": {"ask/run", "ask/lost"}},
		elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
			var last *elector.Term
			return onTerm(func(t *elector.Term, c *elector.TermConfig) {
				if last == nil {
					last = t
				} else if _, was := last.Request(); was {
					c.Asked, c.Request = last.Asked(), last.Request
				}
			})(cfg, e)
		},
	},
}
