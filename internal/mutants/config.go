package mutants

import (
	"context"
	"errors"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

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
