package mutants

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
)

// fitMutants break rules about the check of the application's own health.
var fitMutants = []Mutant{
	{
		Name:   "unfit leader goes on",
		Breaks: "A leader is not asked whether it is fit.",
		Rules:  rules{"fair": {"fit/leading", "fit/hangs"}, "unfair": {"fit/leading"}},
		config: checks(func(c *elector.Config, check check) check {
			var leads atomic.Bool
			elected, ended := c.Hooks.Elected, c.Hooks.Ended
			c.Hooks.Elected = func(t *elector.Term) { leads.Store(true); elected(t) }
			c.Hooks.Ended = func(t *elector.Term, cause error) { leads.Store(false); ended(t, cause) }
			return func(ctx context.Context) error {
				if leads.Load() {
					return nil
				}
				return check(ctx)
			}
		}),
	}, {
		Name:   "unfit candidate waits on",
		Breaks: "A candidate that is not fit any more keeps its entry until it would lead.",
		Rules:  rules{"fair": {"fit/withdraws"}, "parentwatch": {"fit/withdraws"}},
		campaign: func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
			ill, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() {
				if cause := context.Cause(ctx); !errors.Is(cause, elector.ErrUnfit) {
					cancel(cause)
				}
			})()
			return inner(ill, c)
		},
	}, {
		Name:   "fit once, fit until it leads",
		Breaks: "What the check says is not heeded from the offer on.",
		Rules:  rules{"fair": {"fit/withdraws", "fit/win"}, "unfair": {"fit/withdraws", "fit/win"}, "kafka": {"fit/win"}},
		config: checks(func(c *elector.Config, check check) check {
			var offered atomic.Bool
			tell := c.Hooks.Stage
			c.Hooks.Stage = func(e elector.StageEvent) {
				offered.Store(e.Stage >= elector.StageOffer && e.Stage < elector.StageElected)
				if tell != nil {
					tell(e)
				}
			}
			return func(ctx context.Context) error {
				if offered.Load() {
					return nil
				}
				return check(ctx)
			}
		}),
	}, {
		Name:   "asked when it has entered",
		Breaks: "A candidate enters before its application has said that it is fit.",
		Rules:  rules{"fair": {"fit/waits"}, "unfair": {"fit/waits"}},
		config: checks(func(c *elector.Config, check check) check {
			var asked atomic.Bool
			return func(ctx context.Context) error {
				if !asked.Swap(true) {
					return nil
				}
				return check(ctx)
			}
		}),
	}, {
		Name:   "hanging check has passed",
		Breaks: "A check that has not returned when its timeout is over counts as passed.",
		Rules:  rules{"fair": {"fit/hangs"}},
		config: checks(func(_ *elector.Config, check check) check {
			return func(ctx context.Context) error {
				said := make(chan error, 1)
				go func() { said <- check(ctx) }()
				select {
				case err := <-said:
					return err
				case <-ctx.Done():
					return nil
				}
			}
		}),
	}, {
		Name:   "checks go on",
		Breaks: "The application is asked for a while after Close has returned.",
		Rules:  rules{"fair": {"fit/close"}},
		elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
			return closing(func(ctx context.Context, e elector.Elector) error {
				err := e.Close(ctx)
				if check := cfg.Fit.Check; check != nil {
					go func() {
						time.Sleep(cfg.Fit.Every)
						_ = check(ctx)
					}()
				}
				return err
			})(cfg, e)
		},
	},
}

type check = func(context.Context) error

// checks makes the check worse of candidates that have one.
func checks(worsen func(c *elector.Config, check check) check) func(*elector.Config) {
	return func(c *elector.Config) {
		if c.Fit.Check != nil {
			c.Fit.Check = worsen(c, c.Fit.Check)
		}
	}
}
