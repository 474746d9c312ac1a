package explore_test

import (
	"testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/explore"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

var strategies = []struct {
	name string
	cfg  explore.Config
}{
	{"fair", explore.Config{Strategy: func() elector.Strategy { return fair.New() }}},
	{"unfair", explore.Config{Strategy: func() elector.Strategy { return unfair.New() }}},
	{"kafka", explore.Config{Strategy: func() elector.Strategy { return kafka.New() }, Invariant: explore.Dense}},
}

func TestExhaustive(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Faults = 1
			if r := explore.Exhaustive(t, cfg); !r.Exhausted() {
				t.Error("not exhausted")
			}
			cfg.Candidates, cfg.Faults = 3, 0
			if r := explore.Exhaustive(t, cfg); !r.Exhausted() {
				t.Error("not exhausted")
			}
		})
	}
}
