package mutants

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/elector-go/elector"
)

// viewMutants break rules about what others see.
var viewMutants = []Mutant{
	{
		Name:   "observer misses a vacancy",
		Breaks: "Observe does not tell that nobody leads.",
		Rules:  rules{"fair": {"view/observe", "view/observe-founded", "view/observe-lost"}},
		elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
			for l, err := range seq {
				if (err != nil || !l.Vacant()) && !yield(l, err) {
					return
				}
			}
		}),
	}, {
		Name:   "vacancy at each handover",
		Breaks: "Observe tells that nobody leads between one leader and the next, who has waited for it.",
		Rules:  rules{"fair": {"view/no-vacancy"}},
		elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
			var last uint64
			for l, err := range seq {
				if err == nil && last != 0 && l.Token > last && !yield(elector.Leader{}, nil) {
					return
				}
				last = l.Token
				if !yield(l, err) {
					return
				}
			}
		}),
	}, {
		Name:   "status is empty",
		Breaks: "Status tells nothing.",
		Rules:  rules{"fair": {"view/status"}},
		elector: func(_ elector.Config, e elector.Elector) elector.Elector {
			return statusless{e}
		},
	}, {
		Name:   "sixty-first campaign loses",
		Breaks: "An elector's campaigns after the sixtieth wait until their context ends.",
		Rules:  rules{"fair": {"soak/campaigns"}},
		elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
			var n atomic.Int64
			return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				if n.Add(1) > 60 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return e.Campaign(ctx)
			})(cfg, e)
		},
	}, {
		Name:   "observer ends without an error",
		Breaks: "Observe just stops when its context ends or the elector is closed.",
		Rules:  rules{"fair": {"view/observe-ends", "close/any-time"}},
		elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
			for l, err := range seq {
				if err != nil || !yield(l, nil) {
					return
				}
			}
		}),
	}, {
		Name:   "nobody leads is no error",
		Breaks: "Leader returns the zero Leader and no error while nobody leads.",
		Rules:  rules{"fair": {"view/leader"}},
		elector: looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
			l, err := e.Leader(ctx)
			return l, instead(elector.ErrNoLeader, nil)(err)
		}),
	}, {
		Name:   "leader shown with another token",
		Breaks: "Leader returns a token that is not that of the leader's term.",
		Rules:  rules{"fair": {"view/leader", "term/same-id"}},
		elector: looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
			l, err := e.Leader(ctx)
			if err == nil {
				l.Token++
			}
			return l, err
		}),
	},
}

type statusless struct{ elector.Elector }

func (statusless) Status() elector.Status { return elector.Status{} }

// observing is the elector of a mutant that passes on otherwise what it observes.
func observing(pass func(iter.Seq2[elector.Leader, error], func(elector.Leader, error) bool)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		return &otherwise{Elector: e, observe: pass}
	}
}

// looking is the elector of a mutant that tells otherwise who leads.
func looking(leader func(context.Context, elector.Elector) (elector.Leader, error)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		return &otherwise{Elector: e, leader: leader}
	}
}
