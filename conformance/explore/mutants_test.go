package explore_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/explore"
	"github.com/elector-go/elector/internal/mutants"
)

func TestMutants(t *testing.T) {
	for _, m := range mutants.All() {
		t.Run(m.Name, func(t *testing.T) {
			for _, s := range strategies {
				cfg := s.cfg
				inner := cfg.Strategy
				cfg.Strategy = func() elector.Strategy { return m.Strategy(inner()) }
				cfg.Backend = m.Backend
				cfg.New = m.New
				cfg.Candidates, cfg.Faults = 3, 1
				cfg.Budget = 3 * time.Second
				r := explore.Hunt(t, cfg)
				t.Log(s.name, r)
				if r.Failure != nil {
					t.Log(r.Failure)
				}
			}
		})
	}
}
