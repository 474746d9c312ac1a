package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// transferMutants break rules about leadership that is transferred.
var transferMutants = []Mutant{
	{
		Name:   "heir is not waited for",
		Breaks: "A transfer is a resignation: whoever is next leads.",
		Rules: rules{
			"fair":   {"transfer/heir", "transfer/prepare", "transfer/twice", "transfer/unknown", "transfer/request", "transfer/same-id"},
			"unfair": {"transfer/refused"},
		},
		elector: onTerm(func(_ *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(context.Context, string) error { return nil }
		}),
	}, {
		Name:   "leader goes though the heir is not next",
		Breaks: "A transfer that fails ends the term all the same.",
		Rules:  rules{"fair": {"transfer/gone", "transfer/stuck", "transfer/unknown"}, "unfair": {"transfer/refused"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(ctx context.Context, id string) error {
				err := t.Prepare(ctx, id)
				if err != nil {
					err = errors.Join(err, t.Resign(context.WithoutCancel(ctx)))
				}
				return err
			}
		}),
	}, {
		Name:   "transfer prepared twice",
		Breaks: "A leader prepares a transfer once more when the heir is next.",
		Rules:  rules{"fair": {"transfer/next"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(ctx context.Context, id string) error {
				if err := t.Prepare(ctx, id); err != nil {
					return err
				}
				return t.Prepare(ctx, id)
			}
		}),
	}, {
		Name:   "steps aside for one that has gone",
		Breaks: "A candidate steps aside without a look whether the leader and the heir still stand.",
		Rules:  rules{"fair": {"transfer/gone", "transfer/crash"}},
		campaign: inSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if stepsAside(c.ops) {
				c.conditions = nil
			}
		})),
	}, {
		Name:   "heir does not wait for the leader",
		Breaks: "A candidate that the leader has named leads as soon as nobody stands between them.",
		Rules:  rules{"fair": {"transfer/prepare"}},
		campaign: inSession(precedes(func(ctx context.Context, s *backend.Session, e backend.Entry) (backend.Entry, error) {
			before, err := s.Predecessor(ctx, e)
			if h, named := layout.Named(before.Value); named && h.Key == e.Key && h.Rev == e.Rev {
				return backend.Entry{}, nil
			}
			return before, err
		})),
	}, {
		Name:   "stands by the old entry",
		Breaks: "A candidate that has stepped aside goes on with the entry that it had before.",
		Rules:  rules{"fair": {"transfer/heir", "transfer/prepare"}},
		campaign: inSession(answering(func(c *backend.Call) {
			if stepsAside(c.Ops) {
				c.Entries[0] = backend.Entry{Key: c.Ops[1].Key, Rev: c.Ops[1].Rev, Version: 1, Session: c.Entries[0].Session}
			}
		}, backend.CallCommit)),
	}, {
		Name:   "no room at the end is final",
		Breaks: "A candidate that finds no room at the end of the line gives up.",
		Rules:  rules{"fair": {"transfer/used-up"}},
		campaign: inSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if stepsAside(c.ops) && errors.Is(err, backend.ErrUsedUp) {
				err = errors.New("no room")
			}
			return made, err
		})),
	}, {
		Name:   "heir forgotten by a value",
		Breaks: "A value that the leader publishes takes the heir's name out of its entry.",
		Rules:  rules{"fair": {"transfer/proclaim"}},
		trusted: calls(func(s *backend.Session, o *over) {
			var named atomic.Bool // an heir was
			asks(func(_ context.Context, _ *backend.Session, c *commit) {
				if !c.is(backend.OpUpdate) {
					return
				}
				if named.Load() {
					c.ops[0].Value = withoutHeir(c.ops[0].Value)
				} else if _, is := layout.Named(c.ops[0].Value); is {
					named.Store(true)
				}
			})(s, o)
		}),
	},
}

// stepsAside tells whether a commit is that of a candidate that steps aside.
func stepsAside(ops []backend.Op) bool {
	return len(ops) == 2 && ops[0].Kind == backend.OpEnqueue && ops[1].Kind == backend.OpDelete
}

// withoutHeir returns the payload without the heir that it names.
func withoutHeir(payload []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil {
		return payload
	}
	delete(object, "heir")
	payload, _ = json.Marshal(object)
	return payload
}

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
