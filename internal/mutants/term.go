package mutants

import (
	"context"
	"time"

	"github.com/elector-go/elector"
)

// termMutants break rules about what is reported of a term.
var termMutants = []Mutant{
	{
		Name:   "elected twice",
		Breaks: "Elected is called twice for one term.",
		Rules:  rules{"fair": {"term/once"}},
		config: func(c *elector.Config) {
			tell := c.Hooks.Elected
			c.Hooks.Elected = func(t *elector.Term) { tell(t); tell(t) }
		},
	}, {
		Name:   "end not reported",
		Breaks: "A term that ends is not reported.",
		Rules:  rules{"fair": {"term/once", "term/ended-first"}},
		config: func(c *elector.Config) { c.Hooks.Ended = nil },
	}, {
		Name:   "ended told beside the next term",
		Breaks: "Ended is called on a goroutine of its own, so that the next term can begin meanwhile.",
		Rules:  rules{"fair": {"term/ended-first"}},
		config: func(c *elector.Config) {
			tell := c.Hooks.Ended
			c.Hooks.Ended = func(t *elector.Term, cause error) { go tell(t, cause) }
		},
	}, {
		Name:   "elected told beside the end",
		Breaks: "Elected is called on a goroutine of its own, so that Ended can come before it has returned.",
		Rules:  rules{"fair": {"term/elected-first"}},
		config: func(c *elector.Config) {
			tell := c.Hooks.Elected
			c.Hooks.Elected = func(t *elector.Term) { go tell(t) }
		},
	}, {
		Name:   "no goodbye once ctx has ended",
		Breaks: "Close returns at once when its ctx has ended, and leaves the session to time out.",
		Rules:  rules{"fair": {"close/ended-ctx"}},
		elector: closing(func(ctx context.Context, e elector.Elector) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return e.Close(ctx)
		}),
	}, {
		Name:   "stage not completed",
		Breaks: "The stage in which a candidate looks who stands before it is reported begun, and never completed.",
		Rules:  rules{"fair": {"recipe/stages"}},
		config: func(c *elector.Config) {
			tell := c.Hooks.Stage
			c.Hooks.Stage = func(e elector.StageEvent) {
				if e.Stage != elector.StageDetermine || !e.Completed {
					tell(e)
				}
			}
		},
	}, {
		Name:   "retries not reported",
		Breaks: "Nobody hears that a campaign reaches no server.",
		Rules:  rules{"fair": {"server/unreachable-at-start", "server/outage"}},
		config: func(c *elector.Config) { c.Hooks.Retry = nil },
	}, {
		Name:   "steps down at every cut",
		Breaks: "A term ends at the first disconnect, whatever the policy.",
		Rules:  rules{"fair": {"loss/short-cut-held", "loss/long-cut", "server/restart"}},
		config: func(c *elector.Config) { c.OnSuspend = elector.StepDownOnSuspend },
	}, {
		Name:   "never steps down",
		Breaks: "A term outlives a disconnect, whatever the policy.",
		Rules:  rules{"fair": {"loss/short-cut-steps-down", "loss/long-cut"}},
		config: func(c *elector.Config) { c.OnSuspend = elector.HoldWhileTrusted },
	}, {
		Name:    "goroutine left after the term",
		Breaks:  "Each term starts a goroutine that outlives it, and the Close of its elector.",
		Rules:   rules{"fair": {"term/order"}},
		elector: onTerm(func(*elector.Term, *elector.TermConfig) { go time.Sleep(time.Minute) }),
	}, {
		Name:   "context outlives the term",
		Breaks: "The Context of a term is done a second after the term has ended.",
		Rules:  rules{"fair": {"loss/long-cut", "loss/deadline"}},
		// A lead function that returns at once is called again at once.
		Endless: []string{"run/failing-candidates"},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
			context.AfterFunc(t.Context(), func() {
				time.AfterFunc(time.Second, func() { cancel(context.Cause(t.Context())) })
			})
			c.Context = ctx
		}),
	}, {
		Name:   "valid for ever",
		Breaks: "Valid is true until the Context is done, without a look at the clock.",
		Rules:  rules{"fair": {"loss/deadline"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Valid = func() bool { return t.Context().Err() == nil }
		}),
	},
}
