package mutants

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// seatMutants break rules about the seat: how it is won, and given back.
var seatMutants = []Mutant{
	{
		Name:    "win in the old session",
		Breaks:  "Who has won hears one question too late that its session was lost before.",
		Rules:   rules{"fair": {"loss/at-win"}},
		trusted: calls(lateNews),
	}, {
		Name:    "resignation releases nothing",
		Breaks:  "Resign ends the term, and leaves its entry where it is.",
		Rules:   rules{"fair": {"leave/resign", "run/ends"}},
		elector: onTerm(keepSeat),
	}, {
		Name:   "unconfirmed resignation says nil",
		Breaks: "Resign returns nil though its context ended before the service had confirmed.",
		Rules:  rules{"fair": {"leave/resign-out-of-touch"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Resign = func(ctx context.Context) error {
				_ = t.Resign(ctx) // that is the fault
				return nil
			}
		}),
	}, {
		Name:   "term ends with the campaign's context",
		Breaks: "A term is given up when the context ends with which its Campaign was called.",
		Rules:  rules{"fair": {"term/outlives-campaign", "run/ends"}},
		// It is cancelled, and campaigns again, at one instant.
		Endless: []string{"term/exclusion"},
		elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			t, err := e.Campaign(ctx)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = t.Resign(context.WithoutCancel(ctx)) })
			}
			return t, err
		}),
	}, {
		Name:   "second campaign waits",
		Breaks: "A Campaign beside another waits instead of being refused.",
		Rules:  rules{"fair": {"term/busy"}},
		elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			t, err := e.Campaign(ctx)
			if errors.Is(err, elector.ErrBusy) {
				<-ctx.Done()
				err = ctx.Err()
			}
			return t, err
		}),
	}, {
		Name:   "campaigns again while the lead function runs",
		Breaks: "When a term is lost, the next campaign begins at once, before its caller has asked for it.",
		Rules:  rules{"fair": {"run/lost"}},
		elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
			type result struct {
				t   *elector.Term
				err error
			}
			var next atomic.Pointer[chan result]
			return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				var r result
				if begun := next.Swap(nil); begun == nil {
					r.t, r.err = e.Campaign(ctx)
				} else {
					select {
					case r = <-*begun:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				if r.err == nil {
					context.AfterFunc(r.t.Context(), func() {
						if errors.Is(context.Cause(r.t.Context()), elector.ErrSessionLost) {
							begun := make(chan result, 1)
							next.Store(&begun)
							t, err := e.Campaign(context.Background()) // ends with Close
							begun <- result{t, err}
						}
					})
				}
				return r.t, r.err
			})(cfg, e)
		},
	}, {
		Name:    "campaign deaf to its context",
		Breaks:  "A Campaign that waits goes on when its context ends.",
		Rules:   rules{"fair": {"cancel/no-session", "cancel/lost-reply", "cancel/out-of-touch"}},
		Endless: []string{"cancel/deadline"},
		elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
			return e.Campaign(context.WithoutCancel(ctx))
		}),
	}, {
		Name:   "close does not wait",
		Breaks: "Close returns before it has done its work.",
		Rules:  rules{"fair": {"close/any-time", "close/race", "close/stalled-hook"}},
		elector: closing(func(ctx context.Context, e elector.Elector) error {
			time.AfterFunc(time.Second, func() { _ = e.Close(context.WithoutCancel(ctx)) })
			return nil
		}),
	}, {
		Name:   "close says nothing",
		Breaks: "Close is content, whatever has become of the candidate's entry.",
		Rules:  rules{"fair": {"sharing/refused"}, "kafka": {"sharing/refused"}},
		elector: closing(func(ctx context.Context, e elector.Elector) error {
			_ = e.Close(ctx)
			return nil
		}),
	}, {
		Name:    "close deaf to its context",
		Breaks:  "Close waits for the service, and for hooks, however long that takes.",
		Rules:   rules{"fair": {"close/out-of-touch"}},
		Endless: []string{"close/stalled-hook"},
		elector: closing(func(ctx context.Context, e elector.Elector) error {
			return e.Close(context.WithoutCancel(ctx))
		}),
	},
}

// lateNews has the session look alive for one more look after it was lost.
func lateNews(s *backend.Session, o *over) {
	var looks atomic.Int32
	o.state = func() backend.State {
		if state := s.State(); state != backend.Lost || looks.Add(1) > 1 {
			return state
		}
		return backend.Live
	}
}

// campaigning is the elector of a mutant that campaigns otherwise.
func campaigning(campaign func(context.Context, elector.Elector) (*elector.Term, error)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		return &otherwise{Elector: e, campaign: campaign}
	}
}

// closing is the elector of a mutant that closes otherwise.
func closing(stop func(context.Context, elector.Elector) error) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector { return &otherwise{Elector: e, stop: stop} }
}

// otherwise is an elector that does otherwise what is set.
type otherwise struct {
	elector.Elector
	campaign func(context.Context, elector.Elector) (*elector.Term, error)
	stop     func(context.Context, elector.Elector) error
	observe  func(iter.Seq2[elector.Leader, error], func(elector.Leader, error) bool)
	leader   func(context.Context, elector.Elector) (elector.Leader, error)
}

func (o *otherwise) Campaign(ctx context.Context) (*elector.Term, error) {
	if o.campaign == nil {
		return o.Elector.Campaign(ctx)
	}
	return o.campaign(ctx, o.Elector)
}

func (o *otherwise) Close(ctx context.Context) error {
	if o.stop == nil {
		return o.Elector.Close(ctx)
	}
	return o.stop(ctx, o.Elector)
}

func (o *otherwise) Observe(ctx context.Context) iter.Seq2[elector.Leader, error] {
	seq := o.Elector.Observe(ctx)
	if o.observe == nil {
		return seq
	}
	return func(yield func(elector.Leader, error) bool) { o.observe(seq, yield) }
}

func (o *otherwise) Leader(ctx context.Context) (elector.Leader, error) {
	if o.leader == nil {
		return o.Elector.Leader(ctx)
	}
	return o.leader(ctx, o.Elector)
}

// onTerm is the elector of a mutant whose terms do something otherwise. What worsen
// gets does what the term does.
func onTerm(worsen func(t *elector.Term, c *elector.TermConfig)) electorOf {
	return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		c := elector.TermConfig{
			Token: t.Token(), Context: t.Context(), Valid: t.Valid,
			Proclaim: t.Proclaim, Commit: t.Commit, Guard: t.Guard, Resign: t.Resign, Get: t.Get,
			Asked: t.Asked(), Request: t.Request, Prepare: t.Prepare,
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
