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
	"github.com/elector-go/elector/strategy"
)

// viewMutants break rules about what others see.
var viewMutants = []Mutant{
	mutant("observer misses a vacancy", rules{"fair": {"view/observe", "view/observe-founded", "view/observe-lost"}},
		"Observe does not yield vacancies.",
		ofElector(observing(func(_, l elector.Leader, err error, tell telling) bool {
			return err == nil && l.Vacant() || tell(l, err)
		}))),
	mutant("vacancy at each handover", rules{"fair": {"view/no-vacancy"}},
		"Observe yields a vacancy between a leader and a successor that has waited for it.",
		ofElector(observing(func(last, l elector.Leader, err error, tell telling) bool {
			if err == nil && last.Token != 0 && l.Token > last.Token && !tell(elector.Leader{}, nil) {
				return false
			}
			return tell(l, err)
		}))),
	mutant("status is empty", rules{"fair": {"view/status"}},
		"Status returns nothing.",
		ofElector(other(func(o *otherwise) { o.status = func() elector.Status { return elector.Status{} } }))),
	mutant("sixty-first campaign loses", rules{"fair": {"soak/campaigns"}},
		"An elector's campaigns after the sixtieth wait until their context ends.",
		ofElector(func(cfg elector.Config, e elector.Elector) elector.Elector {
			var n atomic.Int64
			return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				if n.Add(1) > 60 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return e.Campaign(ctx)
			})(cfg, e)
		})),
	mutant("observer ends without an error", rules{"fair": {"view/observe", "close/any-time"}},
		"Observe ends without an error when its context ends or the elector is closed.",
		ofElector(observing(func(_, l elector.Leader, err error, tell telling) bool {
			return err == nil && tell(l, nil)
		}))),
	mutant("nobody leads is no error", rules{"fair": {"view/leader"}},
		"Leader returns the zero Leader and no error while nobody leads.",
		ofElector(looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
			l, err := e.Leader(ctx)
			return l, instead(elector.ErrNoLeader, nil)(err)
		}))),
	mutant("leader shown with another token", rules{"fair": {"view/leader", "term/same-id"}},
		"Leader returns another token than that of the leader's term.",
		ofElector(looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
			l, err := e.Leader(ctx)
			if err == nil {
				l.Token++
			}
			return l, err
		}))),
	mutant("closed elector goes on looking", rules{"fair": {"close/any-time"}},
		"Leader of a closed elector returns ErrNoLeader.",
		ofElector(looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
			l, err := e.Leader(ctx)
			return l, instead(elector.ErrClosed, elector.ErrNoLeader)(err)
		}))),
}

// telling passes on an observation, and reports whether to continue.
type telling = func(elector.Leader, error) bool

// observing is the elector of a mutant that changes what it observes before it passes it on. last is the
// observation before.
func observing(pass func(last, l elector.Leader, err error, tell telling) bool) electorOf {
	return other(func(o *otherwise) {
		o.observe = func(ctx context.Context) iter.Seq2[elector.Leader, error] {
			return func(tell func(elector.Leader, error) bool) {
				var last elector.Leader
				for l, err := range o.Elector.Observe(ctx) {
					if !pass(last, l, err, tell) {
						return
					}
					last = l
				}
			}
		}
	})
}

// looking is the elector of a mutant that replaces Leader.
func looking(leader func(context.Context, elector.Elector) (elector.Leader, error)) electorOf {
	return other(func(o *otherwise) {
		o.leader = func(ctx context.Context) (elector.Leader, error) { return leader(ctx, o.Elector) }
	})
}

// configMutants break rules about what a candidate is and what it finds.
var configMutants = []Mutant{
	mutant("one violation at a time", rules{"fair": {"config/all-violations"}},
		"New reports only the first violation of a Config.",
		ofRefusal(func(err error) error {
			first, _, _ := strings.Cut(err.Error(), "\n")
			if !errors.Is(err, elector.ErrConfig) {
				return err
			}
			return &oneOf{first}
		})),
	mutant("duplicate not noticed", rules{"fair": {"config/duplicate"}},
		"Two open electors of one process can have the same ID in one election.",
		ofConfig(func(c *elector.Config) {
			c.Backend = &distinct{c.Backend}
		})),
	mutant("strategies not compared", rules{"fair": {"data/mismatch", "run/fails"}},
		"All strategies are recorded under one name.",
		ofConfig(func(c *elector.Config) {
			c.Strategy = named{c.Strategy, "any"}
		})),
	mutant("foreign data written over", rules{"fair": {"data/foreign-path"}},
		"A path that holds something other than an election's record is treated as empty.",
		ofTrusted(answering(func(c *backend.Call) {
			if _, bad := layout.DecodeRecord(c.Found.Value); bad != nil {
				c.Found.Value = nil
			}
		}, backend.CallSurvey))),
	mutant("strangers not seen", rules{Backend: {"read/survey"}, "fair": {"data/occupied", "data/occupied-late"}},
		"Survey returns no strangers.",
		ofSession(answering(func(c *backend.Call) { c.Strangers = nil }, backend.CallSurvey))),
	mutant("only the queue has children", rules{Backend: {"read/children"}},
		"Children returns only enqueued entries.",
		ofSession(on(backend.CallChildren, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			if c.Key == "/" {
				return c.By(ctx, s)
			}
			l, err := s.List(ctx, c.Key)
			c.Children, c.More = l.Keys[:min(c.Most, len(l.Keys))], len(l.Keys) > c.Most
			return err
		}))),
}

// oneOf is a part of an ErrConfig.
type oneOf struct{ text string }

func (o *oneOf) Error() string        { return o.text }
func (o *oneOf) Is(target error) bool { return target == elector.ErrConfig }

// distinct is a backend that never equals another.
type distinct struct{ backend.Backend }

type named struct {
	strategy.Strategy
	name string
}

func (n named) Name() string { return n.name }
