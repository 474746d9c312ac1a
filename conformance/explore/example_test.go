package explore_test

import (
	"context"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/explore"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
)

// metered is a wrapper of your own, around any backend.
type metered struct{ backend.Backend }

func (m *metered) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return m.Backend.Open(ctx, o) // and count it
}

// In your package this is TestExplore: it checks that the wrapper breaks no election, in any order of
// steps.
func ExampleExhaustive() {
	test := func(t *testing.T) {
		explore.Exhaustive(t, explore.Config{
			Strategy:   func() strategy.Strategy { return fair.Strategy{} },
			Backend:    func(b backend.Backend) backend.Backend { return &metered{b} },
			Ordered:    true,
			Candidates: 2,
			Faults:     1,
			Budget:     time.Minute,
		})
	}
	_ = test
}

// Replay runs a failure again, with its trace, from the schedule that it has printed.
func ExampleReplay() {
	test := func(t *testing.T) {
		cfg := explore.Config{Strategy: func() strategy.Strategy { return fair.Strategy{} }}
		explore.Replay(t, cfg, "fair/2/anabakapbnbbadbwbbbk")
	}
	_ = test
}
