package mutants

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// termMutants break rules about what is reported of a term.
var termMutants = []Mutant{
	mutant("term shown that is over", rules{"fair": {"term/busy"}},
		"Term returns the last term even after it has ended.",
		ofElector(func(cfg elector.Config, e elector.Elector) elector.Elector {
			var last atomic.Pointer[elector.Term]
			return other(func(o *otherwise) {
				o.term = last.Load
				o.campaign = func(ctx context.Context) (*elector.Term, error) {
					t, err := e.Campaign(ctx)
					if err == nil {
						last.Store(t)
					}
					return t, err
				}
			})(cfg, e)
		})),
	mutant("elected twice", rules{"fair": {"term/once"}},
		"Elected is called twice for one term.",
		ofConfig(func(c *elector.Config) {
			tell := c.Hooks.Elected
			c.Hooks.Elected = func(t *elector.Term) { tell(t); tell(t) }
		})),
	mutant("end not reported", rules{"fair": {"term/once"}},
		"The end of a term is not reported.",
		ofConfig(func(c *elector.Config) { c.Hooks.Ended = nil })),
	mutant("ended told beside the next term", rules{"fair": {"term/once"}},
		"Ended is called on a goroutine of its own, so the next term can begin before it has returned.",
		ofConfig(func(c *elector.Config) {
			tell := c.Hooks.Ended
			c.Hooks.Ended = func(t *elector.Term, cause error) { go tell(t, cause) }
		})),
	mutant("elected told beside the end", rules{"fair": {"term/once"}},
		"Elected is called on a goroutine of its own, so Ended can be called before it has returned.",
		ofConfig(func(c *elector.Config) {
			tell := c.Hooks.Elected
			c.Hooks.Elected = func(t *elector.Term) { go tell(t) }
		})),
	mutant("no goodbye once ctx has ended", rules{"fair": {"close/any-time"}},
		"If its ctx has ended, Close returns at once and leaves the session to time out.",
		ofElector(closing(func(ctx context.Context, e elector.Elector) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return e.Close(ctx)
		}))),
	mutant("stage not completed", rules{"fair": {"recipe/stages"}},
		"The stage in which a candidate looks up who is before it is reported as begun, but never as completed.",
		ofConfig(func(c *elector.Config) {
			tell := c.Hooks.Stage
			c.Hooks.Stage = func(e elector.StageEvent) {
				if e.Stage != elector.StageDetermine || !e.Completed {
					tell(e)
				}
			}
		})),
	mutant("retries not reported", rules{"fair": {"server/unreachable-at-start", "server/outage"}},
		"A campaign does not report that it reaches no server.",
		ofConfig(func(c *elector.Config) { c.Hooks.Retry = nil })),
	mutant("steps down at every cut", rules{"fair": {"loss/short-cut-held", "loss/long-cut", "server/restart"}},
		"A term ends at the first disconnect under both policies.",
		ofConfig(func(c *elector.Config) { c.OnSuspend = elector.StepDownOnSuspend })),
	mutant("never steps down", rules{"fair": {"loss/short-cut-steps-down", "loss/long-cut"}},
		"A term survives a disconnect under both policies.",
		ofConfig(func(c *elector.Config) { c.OnSuspend = elector.HoldWhileTrusted })),
	mutant("goroutine left after the term", rules{"fair": {"term/order"}},
		"Each term starts a goroutine that outlives the term and its elector's Close.",
		ofElector(onTerm(func(*elector.Term, *elector.TermConfig) { go time.Sleep(time.Minute) }))),
	mutant("context outlives the term", rules{"fair": {"loss/long-cut", "loss/deadline"}},
		"The Context of a term ends a second after the term.",
		// A lead function that returns at once is called again at once.
		endless("run/failing-candidates"),
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
			context.AfterFunc(t.Context(), func() {
				time.AfterFunc(time.Second, func() { cancel(context.Cause(t.Context())) })
			})
			c.Context = ctx
		}))),
	mutant("valid for ever", rules{"fair": {"loss/deadline"}},
		"Valid is true until the Context has ended; it does not look at the clock.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Valid = func() bool { return t.Context().Err() == nil }
		}))),
}

// tokenMutants break rules about tokens and epochs.
var tokenMutants = []Mutant{
	mutant("token repeats", rules{"fair": {"term/token"}, "kafka": {"term/token", "epoch/dense"}},
		"Two consecutive terms can have the same token.",
		ofCampaign(claiming(func(c *strategy.Claim) { c.Token = c.Token/4 + 1 }))),
	mutant("epoch begins again with each founder", rules{"kafka": {"epoch/dense", "epoch/restart", "term/token"}},
		"A candidate that has seen no leader counts from 1 again.",
		ofCampaign(inSession(func(s *backend.Session, o *over) {
			met := false
			answering(func(c *backend.Call) {
				if met = met || c.Entries[0].Exists(); !met && c.Entries[1].Exists() {
					c.Entries[1].Value = []byte("0")
				}
			}, backend.CallAwait)(s, o)
		}))),
	mutant("epoch raised by two", rules{"kafka": {"epoch/dense", "epoch/stalled-claim", "epoch/restart"}},
		"A claim raises the epoch by two.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			if epoch := &c.Entries[1]; epoch.Exists() {
				last, _ := strconv.Atoi(string(epoch.Value)) // anything but a number stays refused
				epoch.Value = strconv.AppendInt(nil, int64(last+1), 10)
			}
		}, backend.CallAwait)))),
	mutant("claim in two steps", rules{"kafka": {"epoch/stalled-claim"}},
		"A claim raises the epoch in one step and takes the seat in a second one.",
		ofCampaign(inSession(commits(inParts(1))))),
}

// fenceMutants break rules about what a term may write.
var fenceMutants = []Mutant{
	mutant("get after the end", rules{"fair": {"fence/ended"}},
		"Get still works after the term has ended.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Get = func(ctx context.Context, key string) (backend.Entry, error) { return t.Guard().Session.Get(ctx, key) }
		}))),
	mutant("bad input told without its key", rules{"fair": {"fence/bad-input"}},
		"The error of a commit that cannot be right does not say what is wrong with it.",
		ofElector(commitTells(backend.ErrBadKey, backend.ErrBadKey))),
	mutant("end of the term kept from the writer", rules{"fair": {"fence/ended", "fence/frozen"}},
		"A commit after the term has ended returns only that a context has ended, not ErrDeposed.",
		ofElector(commitTells(elector.ErrDeposed, context.Canceled))),
	mutant("refused write told to its caller only", rules{"fair": {"fence/frozen"}},
		"A term continues after the service has refused its write for good.",
		ofTrusted(told(backend.ErrCondition, errors.New("refused")))),
	mutant("queued write without its guards", rules{"fair": {"fence/queued"}},
		"A commit that waits for the link is sent without its conditions.",
		ofSession(asks(func(_ context.Context, s *backend.Session, c *commit) {
			if s.State() == backend.Suspended && len(c.ops) > 0 {
				c.conditions = nil
			}
		}))),
	mutant("proclaimed value not published", rules{"fair": {"term/proclaim", "view/observe"}},
		"Proclaim returns nil and writes nothing.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Proclaim = func(context.Context, []byte) error { return nil }
		}))),
}

// commitTells is the elector of a mutant whose terms return another error from Commit.
func commitTells(err, as error) electorOf {
	return onTerm(func(t *elector.Term, c *elector.TermConfig) {
		c.Commit = func(ctx context.Context, ops ...elector.Write) ([]backend.Entry, error) {
			made, failed := t.Commit(ctx, ops...)
			return made, instead(err, as)(failed)
		}
	})
}

// seatMutants break rules about the seat: how it is won and given back.
var seatMutants = []Mutant{
	mutant("win in the old session", rules{"fair": {"loss/at-win"}},
		"A candidate that has won learns one call too late that its session was lost before.",
		ofTrusted(lateNews)),
	mutant("resignation releases nothing", rules{"fair": {"leave/resign", "run/ends"}},
		"Resign ends the term, but leaves the term's entry in the service.",
		ofElector(onTerm(keepSeat))),
	mutant("unconfirmed resignation says nil", rules{"fair": {"leave/resign-out-of-touch"}},
		"Resign returns nil even if its context ended before the service confirmed it.",
		ofElector(onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Resign = func(ctx context.Context) error {
				_ = t.Resign(ctx) // ignored: that is the fault
				return nil
			}
		}))),
	mutant("term ends with the campaign's context", rules{"fair": {"term/outlives-campaign", "run/ends"}},
		"A term ends when the context of its Campaign ends.",
		// It is cancelled and campaigns again at one instant.
		endless("term/exclusion"),
		ofElector(campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			t, err := e.Campaign(ctx)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = t.Resign(context.WithoutCancel(ctx)) })
			}
			return t, err
		}))),
	mutant("second campaign waits", rules{"fair": {"term/busy"}},
		"A second Campaign of an elector waits instead of being refused.",
		ofElector(campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			t, err := e.Campaign(ctx)
			if errors.Is(err, elector.ErrBusy) {
				<-ctx.Done()
				err = ctx.Err()
			}
			return t, err
		}))),
	mutant("campaigns again while the lead function runs", rules{"fair": {"run/lost"}},
		"When a term is lost, the elector campaigns again at once, without a call of its user.",
		ofElector(campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			t, err := e.Campaign(ctx)
			if err == nil {
				context.AfterFunc(t.Context(), func() {
					if errors.Is(context.Cause(t.Context()), elector.ErrSessionLost) {
						_, _ = e.Campaign(context.Background()) // ends with Close
					}
				})
			}
			return t, err
		}))),
	mutant("campaign deaf to its context", rules{"fair": {"cancel/out-of-touch", "cancel/lost-reply"}},
		"A waiting Campaign continues after its context has ended.",
		endless("cancel/deadline"),
		ofElector(campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			return e.Campaign(context.WithoutCancel(ctx))
		}))),
	mutant("close does not wait", rules{"fair": {"close/any-time", "close/race", "close/stalled-hook"}},
		"Close returns before it has closed anything.",
		ofElector(closing(func(ctx context.Context, e elector.Elector) error {
			time.AfterFunc(time.Second, func() { _ = e.Close(context.WithoutCancel(ctx)) })
			return nil
		}))),
	mutant("close says nothing", rules{"fair": {"sharing/refused"}, "kafka": {"sharing/refused"}},
		"Close returns nil even if the candidate's entry could not be removed.",
		ofElector(closing(func(ctx context.Context, e elector.Elector) error {
			_ = e.Close(ctx)
			return nil
		}))),
	mutant("close deaf to its context", rules{"fair": {"close/out-of-touch"}},
		"Close waits for the service and for hooks without a limit, even if its context ends.",
		endless("close/stalled-hook"),
		ofElector(closing(func(ctx context.Context, e elector.Elector) error {
			return e.Close(context.WithoutCancel(ctx))
		}))),
}

// lateNews lets the session look alive once more after it was lost.
func lateNews(s *backend.Session, o *over) {
	var looks atomic.Int32
	o.state = func() backend.State {
		if state := s.State(); state != backend.Lost || looks.Add(1) > 1 {
			return state
		}
		return backend.Live
	}
}

// campaigning is the elector of a mutant that replaces Campaign.
func campaigning(campaign func(context.Context, elector.Elector) (*elector.Term, error)) electorOf {
	return other(func(o *otherwise) {
		o.campaign = func(ctx context.Context) (*elector.Term, error) { return campaign(ctx, o.Elector) }
	})
}

// closing is the elector of a mutant that replaces Close.
func closing(stop func(context.Context, elector.Elector) error) electorOf {
	return other(func(o *otherwise) { o.stop = func(ctx context.Context) error { return stop(ctx, o.Elector) } })
}

// otherwise is an elector with some methods replaced.
type otherwise struct {
	elector.Elector
	campaign func(context.Context) (*elector.Term, error)
	stop     func(context.Context) error
	observe  func(context.Context) iter.Seq2[elector.Leader, error]
	leader   func(context.Context) (elector.Leader, error)
	status   func() elector.Status
	term     func() *elector.Term
}

// other is the elector of a mutant that replaces some methods.
func other(replace func(*otherwise)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		o := &otherwise{e, e.Campaign, e.Close, e.Observe, e.Leader, e.Status, e.Term}
		replace(o)
		return o
	}
}

func (o *otherwise) Campaign(ctx context.Context) (*elector.Term, error) { return o.campaign(ctx) }
func (o *otherwise) Close(ctx context.Context) error                     { return o.stop(ctx) }
func (o *otherwise) Observe(ctx context.Context) iter.Seq2[elector.Leader, error] {
	return o.observe(ctx)
}
func (o *otherwise) Leader(ctx context.Context) (elector.Leader, error) { return o.leader(ctx) }
func (o *otherwise) Status() elector.Status                             { return o.status() }
func (o *otherwise) Term() *elector.Term                                { return o.term() }

// onTerm is the elector of a mutant with faulty terms. worsen gets a TermConfig that does what the term
// does.
func onTerm(worsen func(t *elector.Term, c *elector.TermConfig)) electorOf {
	return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		c := elector.TermConfig{
			Token: t.Token(), Context: t.Context(), Valid: t.Valid,
			Proclaim: t.Proclaim, Commit: t.Commit, Guard: t.Guard, Resign: t.Resign, Get: t.Get,
			Asked: t.Asked(), Request: t.Request, Transfer: t.Transfer,
		}
		worsen(t, &c)
		return elector.NewTerm(c), nil
	})
}

// keepSeat ends the term for its caller only.
func keepSeat(t *elector.Term, c *elector.TermConfig) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Context = ctx
	c.Valid = func() bool { return ctx.Err() == nil && t.Valid() }
	c.Resign = func(context.Context) error {
		cancel(elector.ErrResigned)
		return nil
	}
}
