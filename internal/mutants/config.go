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
func configMutants() []Mutant {
	return []Mutant{
		{
			Name:   "one violation at a time",
			Breaks: "New reports the first thing that is wrong with a Config, and nothing more.",
			Rules:  map[string][]string{"fair": {"config/all-violations"}},
			refusal: func(err error) error {
				first, _, _ := strings.Cut(err.Error(), "\n")
				if !errors.Is(err, elector.ErrConfig) {
					return err
				}
				return &oneOf{first}
			},
		},
		{
			Name:   "duplicate not noticed",
			Breaks: "Two open electors of one process can have the same ID in one election.",
			Rules:  map[string][]string{"fair": {"config/duplicate"}},
			config: func(c *elector.Config) {
				c.Backend = &distinct{c.Backend}
			},
		},
		{
			Name:   "strategies not compared",
			Breaks: "All strategies are recorded under one name.",
			Rules:  map[string][]string{"fair": {"data/mismatch", "run/fails"}},
			config: func(c *elector.Config) {
				c.Strategy = named{c.Strategy, "any"}
			},
		},
		{
			Name:   "foreign data written over",
			Breaks: "A path that holds something that is no election's record is taken for an empty one.",
			Rules:  map[string][]string{"fair": {"data/foreign-path"}},
			trusted: calls(func(s backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					e, err := s.Get(ctx, key)
					if _, bad := layout.DecodeRecord(e.Value); err == nil && e.Session == "" && bad != nil {
						e.Value = nil
					}
					return e, err
				}
			}),
		},
	}
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
