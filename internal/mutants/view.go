package mutants

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
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

// configMutants break rules about what a candidate is, and what it finds.
var configMutants = []Mutant{
	{
		Name:   "one violation at a time",
		Breaks: "New reports the first thing that is wrong with a Config, and nothing more.",
		Rules:  rules{"fair": {"config/all-violations"}},
		refusal: func(err error) error {
			first, _, _ := strings.Cut(err.Error(), "\n")
			if !errors.Is(err, elector.ErrConfig) {
				return err
			}
			return &oneOf{first}
		},
	}, {
		Name:   "duplicate not noticed",
		Breaks: "Two open electors of one process can have the same ID in one election.",
		Rules:  rules{"fair": {"config/duplicate"}},
		config: func(c *elector.Config) {
			c.Backend = &distinct{c.Backend}
		},
	}, {
		Name:   "strategies not compared",
		Breaks: "All strategies are recorded under one name.",
		Rules:  rules{"fair": {"data/mismatch", "run/fails"}},
		config: func(c *elector.Config) {
			c.Strategy = named{c.Strategy, "any"}
		},
	}, {
		Name:   "foreign data written over",
		Breaks: "A path that holds something that is no election's record is taken for an empty one.",
		Rules:  rules{"fair": {"data/foreign-path"}},
		trusted: calls(answering(func(c *backend.Call) {
			if _, bad := layout.DecodeRecord(c.Found.Value); bad != nil {
				c.Found.Value = nil
			}
		}, backend.CallSurvey)),
	}, {
		Name:    "strangers not seen",
		Breaks:  "Survey tells of no strangers.",
		Rules:   rules{Backend: {"read/survey"}, "fair": {"data/occupied", "data/occupied-late"}},
		session: calls(answering(func(c *backend.Call) { c.Strangers = nil }, backend.CallSurvey)),
	}, {
		Name:   "only the queue has children",
		Breaks: "Children tells of enqueued entries alone.",
		Rules:  rules{Backend: {"read/children"}},
		session: calls(on(backend.CallChildren, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			if c.Key == "/" {
				return c.By(ctx, s)
			}
			l, err := s.List(ctx, c.Key)
			c.Children, c.More = l.Keys[:min(c.Most, len(l.Keys))], len(l.Keys) > c.Most
			return err
		})),
	},
}

// oneOf is a part of an ErrConfig.
type oneOf struct{ text string }

func (o *oneOf) Error() string        { return o.text }
func (o *oneOf) Is(target error) bool { return target == elector.ErrConfig }

// distinct is a backend that is never the same as another.
type distinct struct{ backend.Backend }

type named struct {
	elector.Strategy
	name string
}

func (n named) Name() string { return n.name }
