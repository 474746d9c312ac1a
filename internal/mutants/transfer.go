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
	"github.com/elector-go/elector/strategy"
)

// transferMutants break rules about leadership that is transferred.
var transferMutants = []Mutant{
	mutant("heir is not waited for",
		rules{
			"fair":   {"transfer/heir", "transfer/prepare", "transfer/twice", "transfer/unknown", "transfer/request", "transfer/same-id"},
			"unfair": {"transfer/refused"},
		},
		"A transfer only resigns, and the next candidate leads.",
		ofElector(onTerm(func(_ *elector.Term, c *elector.TermConfig) {
			c.Transfer = func(_ context.Context, _ string, resign func() error) error { return resign() }
		}))),
	mutant("leader goes though the heir is not next",
		rules{"fair": {"transfer/fails", "transfer/unknown"}, "unfair": {"transfer/refused"}},
		"A transfer that fails ends the term anyway.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Transfer = func(ctx context.Context, id string, resign func() error) error {
				next := false
				err := t.Transfer(ctx, id, func() error { next = true; return resign() })
				if !next {
					err = errors.Join(err, t.Resign(context.WithoutCancel(ctx)))
				}
				return err
			}
		}))),
	mutant("transfer prepared twice", rules{"fair": {"transfer/next"}},
		"A leader prepares a transfer a second time when the heir is next.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Transfer = func(ctx context.Context, id string, resign func() error) error {
				return t.Transfer(ctx, id, func() error { return t.Transfer(ctx, id, resign) })
			}
		}))),
	mutant("steps aside for one that has gone", rules{"fair": {"transfer/fails"}},
		"A candidate steps aside without checking that the leader and the heir still stand.",
		ofCampaign(inSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if stepsAside(c.ops) {
				c.conditions = nil
			}
		})))),
	mutant("heir does not wait for the leader", rules{"fair": {"transfer/prepare"}},
		"A candidate that the leader has named leads as soon as no candidate is between them.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			if h, named := layout.Named(c.Found.Value); named && h.Key == c.Entry.Key && h.Rev == c.Entry.Rev {
				c.Found = backend.Entry{}
			}
		}, backend.CallPredecessor)))),
	mutant("fenced by nothing once it has stepped aside", rules{"fair": {"transfer/heir", "transfer/prepare", "transfer/fails"}},
		"If a candidate has stepped aside before it leads, its writes have no conditions.",
		ofCampaign(func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
			aside := false
			claim, err := inSession(answering(func(c *backend.Call) { aside = aside || stepsAside(c.Ops) }, backend.CallCommit))(ctx, c, inner)
			if aside {
				claim.Conditions = nil
			}
			return claim, err
		})),
	mutant("stands by the old entry", rules{"fair": {"transfer/heir", "transfer/prepare"}},
		"A candidate that has stepped aside continues with its old entry.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			if stepsAside(c.Ops) {
				c.Entries[0] = backend.Entry{Key: c.Ops[1].Key, Rev: c.Ops[1].Rev, Version: 1, Session: c.Entries[0].Session}
			}
		}, backend.CallCommit)))),
	mutant("no room at the end is final", rules{"fair": {"transfer/used-up"}},
		"A candidate that finds no room at the end of the line gives up.",
		ofCampaign(inSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if stepsAside(c.ops) && errors.Is(err, backend.ErrUsedUp) {
				err = errors.New("no room")
			}
			return made, err
		})))),
	mutant("heir forgotten by a value", rules{"fair": {"transfer/prepare"}},
		"When the leader publishes a value, the heir's name is removed from its entry.",
		ofTrusted(func(s *backend.Session, o *over) {
			var named atomic.Bool // whether an heir was named
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
		})),
}

// stepsAside reports whether a commit is from a candidate that steps aside.
func stepsAside(ops []backend.Op) bool {
	return len(ops) == 2 && ops[0].Kind == backend.OpEnqueue && ops[1].Kind == backend.OpDelete
}

// withoutHeir returns the payload without its heir.
func withoutHeir(payload []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil {
		return payload
	}
	delete(object, "heir")
	payload, _ = json.Marshal(object)
	return payload
}

// askMutants break rules about leaders that are asked to resign.
var askMutants = []Mutant{
	mutant("deaf leader", rules{"fair": {"ask/run", "ask/by-hand", "ask/proclaim", "ask/suspended"}, "kafka": {"ask/run"}},
		"A term does not report that it is asked to go.",
		ofElector(onTerm(func(_ *elector.Term, c *elector.TermConfig) {
			c.Asked, c.Request = nil, nil
		}))),
	mutant("asked is deposed", rules{"fair": {"ask/run", "ask/by-hand"}, "unfair": {"ask/run"}},
		"A term that is asked to go ends by itself, while its leader still works.",
		ofElector(onTerm(func(t *elector.Term, _ *elector.TermConfig) {
			go func() {
				select {
				case <-t.Asked():
					_ = t.Resign(context.Background())
				case <-t.Context().Done():
				}
			}()
		}))),
	mutant("request is kept for the next term", rules{"fair": {"ask/run", "ask/lost"}},
		"After a candidate was asked to go, its next term counts as asked, too.",
		ofElector(func(cfg elector.Config, e elector.Elector) elector.Elector {
			var last *elector.Term
			return onTerm(func(t *elector.Term, c *elector.TermConfig) {
				if last == nil {
					last = t
				} else if _, was := last.Request(); was {
					c.Asked, c.Request = last.Asked(), last.Request
				}
			})(cfg, e)
		})),
}

// fitMutants break rules about the check of the application's own health.
var fitMutants = []Mutant{
	mutant("unfit leader goes on", rules{"fair": {"fit/leading", "fit/hangs"}, "unfair": {"fit/leading"}},
		"A leader's application is not asked whether it is fit.",
		ofConfig(checks(func(c *elector.Config, check check) check {
			var leads atomic.Bool
			elected, ended := c.Hooks.Elected, c.Hooks.Ended
			c.Hooks.Elected = func(t *elector.Term) { leads.Store(true); elected(t) }
			c.Hooks.Ended = func(t *elector.Term, cause error) { leads.Store(false); ended(t, cause) }
			return unless(leads.Load, check)
		}))),
	mutant("unfit candidate waits on", rules{"fair": {"fit/withdraws"}, "parentwatch": {"fit/withdraws"}},
		"A candidate that becomes unfit while it waits keeps its entry until it would lead.",
		ofCampaign(func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
			ill, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() {
				if cause := context.Cause(ctx); !errors.Is(cause, elector.ErrUnfit) {
					cancel(cause)
				}
			})()
			return inner(ill, c)
		})),
	mutant("fit once, fit until it leads",
		rules{"fair": {"fit/withdraws", "fit/win"}, "unfair": {"fit/withdraws", "fit/win"}, "kafka": {"fit/win"}},
		"The result of the check is ignored from the offer until the candidate leads.",
		ofConfig(checks(func(c *elector.Config, check check) check {
			var offered atomic.Bool
			tell := c.Hooks.Stage
			c.Hooks.Stage = func(e elector.StageEvent) {
				offered.Store(e.Stage >= elector.StageOffer && e.Stage < elector.StageElected)
				if tell != nil {
					tell(e)
				}
			}
			return unless(offered.Load, check)
		}))),
	mutant("asked when it has entered", rules{"fair": {"fit/waits"}, "unfair": {"fit/waits"}},
		"A candidate enters before its application has reported that it is fit.",
		ofConfig(checks(func(c *elector.Config, check check) check {
			var asked atomic.Bool
			return unless(func() bool { return !asked.Swap(true) }, check)
		}))),
	mutant("hanging check has passed", rules{"fair": {"fit/hangs"}},
		"A check that has not returned when its timeout is over counts as passed.",
		ofConfig(checks(func(_ *elector.Config, check check) check {
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
		}))),
	mutant("checks go on", rules{"fair": {"fit/close"}},
		"The application is asked for a while after Close has returned.",
		ofElector(func(cfg elector.Config, e elector.Elector) elector.Elector {
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
		})),
}

type check = func(context.Context) error

// unless is a check that passes, without calling check, while passes returns true.
func unless(passes func() bool, check check) check {
	return func(ctx context.Context) error {
		if passes() {
			return nil
		}
		return check(ctx)
	}
}

// checks makes the check faulty in candidates that have one.
func checks(worsen func(c *elector.Config, check check) check) func(*elector.Config) {
	return func(c *elector.Config) {
		if c.Fit.Check != nil {
			c.Fit.Check = worsen(c, c.Fit.Check)
		}
	}
}
