package explore

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

type explored struct {
	catalog.Item
	name string
	cfg  Config
}

// recorded are the faults that write the election's record, which some strategies read. others are the
// rest: without recorded, every read of the record has the same result, which is much less to explore.
var (
	recorded = []Fault{Designate, AskTo}
	others   = slices.DeleteFunc(slices.Clone(Faults), func(f Fault) bool { return slices.Contains(recorded, f) })
)

var strategies = func() (all []explored) {
	for _, item := range catalog.All() {
		cfg := Config{Strategy: func() strategy.Strategy { return item.Strategy }, Ordered: item.Ordered && !item.Seat}
		if item.Dense {
			cfg.Invariant = Dense
		}
		all = append(all, explored{item, item.Strategy.Name(), cfg})
	}
	return all
}()

// fairly is the Config of the strategy fair.
var fairly = strategies[0].cfg

// exhaust explores everything, and fails t if something was left out.
func exhaust(t *testing.T, cfg Config) {
	t.Helper()
	if r := Exhaustive(t, cfg); !r.Exhausted() {
		t.Errorf("not everything was explored: %v", r)
	}
}

// designable reports whether the strategy is a strategy.Designator. Such a strategy has far more orders.
func (e explored) designable() bool {
	_, heeds := e.Strategy.(strategy.Designator)
	return heeds
}

func TestExhausted(t *testing.T) {
	undesignable := func(s explored) bool { return !s.designable() }
	for _, c := range []struct {
		name string
		cfg  Config
		of   func(explored) bool // which strategies; nil means all
		long bool
	}{
		{name: "three candidates", cfg: Config{Candidates: 3}},
		{name: "each leads, and stands again", cfg: Config{Terms: 2}},
		{name: "the election does not exist at first", cfg: Config{Candidates: 3, Found: true}, of: func(s explored) bool {
			_, foreign := s.Strategy.(strategy.CustomLayout)
			return !foreign // its election needs no founding
		}},
		{"a fault", Config{Faults: 1}, undesignable, false},
		{"a fault", Config{Faults: 1, Kinds: others}, explored.designable, true}, // TestRanks has the others
		{"a session is lost, and the next one opened at a server that is behind", Config{Faults: 2, Kinds: []Fault{Lag, Expire}}, undesignable, false},
		{"a session is lost, and the next one opened at a server that is behind", Config{Faults: 2, Kinds: []Fault{Lag, Expire}}, explored.designable, true},
		{"a leader is asked to go, for the last of those who wait to lead next", Config{Candidates: 3, Faults: 1, Kinds: []Fault{AskTo}},
			func(s explored) bool { return s.StepsAside }, true},
		{name: "a companion executes the wills of a dead process at any moment, twice, and late",
			cfg: Config{Faults: 1, Kinds: []Fault{Crash}, companion: companion{again: true}}},
	} {
		for _, s := range strategies {
			if c.of != nil && !c.of(s) {
				continue
			}
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				if c.long && testing.Short() {
					t.Skip("it computes for long: make test-all")
				}
				cfg := c.cfg
				cfg.Strategy, cfg.Ordered, cfg.Invariant = s.cfg.Strategy, s.cfg.Ordered, s.cfg.Invariant
				exhaust(t, cfg)
			})
		}
	}
}

func TestFiveCandidates(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates, cfg.Faults, cfg.Terms = 5, 4, 2
			Random(t, cfg, 1, 60)
		})
	}
}

var budget = flag.Duration("explore.budget", time.Second, "how long TestProve explores each strategy")

// TestProve explores as much as its budget allows, and logs how much.
func TestProve(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			for _, n := range []struct{ candidates, faults int }{{2, 1}, {2, 2}, {3, 1}, {3, 2}} {
				cfg := s.cfg
				cfg.Candidates, cfg.Faults = n.candidates, n.faults
				if cfg.Budget = *budget - time.Since(began); cfg.Budget <= 0 {
					t.Logf("%d candidates, up to %d faults: nothing is left of the budget of %v", n.candidates, n.faults, *budget)
					continue
				}
				t.Logf("%d candidates, up to %d faults:", n.candidates, n.faults)
				Exhaustive(t, cfg)
			}
		})
	}
}

// A wrapper that changes nothing, and a schedule that breaks nothing, pass.
func TestExamples(t *testing.T) {
	cfg := fairly
	cfg.Backend = func(b backend.Backend) backend.Backend { return struct{ backend.Backend }{b} }
	exhaust(t, cfg)
	Replay(t, cfg, "fair/2/anabakapbnbbadbwbbbk")
}
