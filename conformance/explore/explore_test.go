package explore

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/catalog"
)

type explored struct {
	name string
	cfg  Config
}

// recorded are the faults that write the election's record, where a strategy looks there, and others the
// rest. Without them it is read at any time with the same result, which is much less to explore.
var (
	recorded = []Fault{Designate, AskTo}
	others   = slices.DeleteFunc(slices.Clone(Faults), func(f Fault) bool { return slices.Contains(recorded, f) })
)

var strategies = func() (all []explored) {
	for _, item := range catalog.All() {
		cfg := Config{Strategy: func() elector.Strategy { return item.Strategy }, Ordered: item.Ordered && !item.Ranked}
		if item.Dense {
			cfg.Invariant = Dense
		}
		all = append(all, explored{item.Strategy.Name(), cfg})
	}
	return all
}()

// fairly is the Config of the strategy fair.
var fairly = strategies[0].cfg

// exhaust explores all there is, and says so if that was not all.
func exhaust(t *testing.T, cfg Config) {
	t.Helper()
	if r := Exhaustive(t, cfg); !r.Exhausted() {
		t.Errorf("not everything was explored: %v", r)
	}
}

// designable tells whether a strategy heeds an operator's wishes. Such a one has far more orders.
func (e explored) designable() bool {
	_, heeds := e.cfg.Strategy().(elector.Designator)
	return heeds
}

func TestTwoCandidatesAndAFault(t *testing.T) {
	for _, s := range strategies {
		if s.designable() {
			continue // TestDesignable has it
		}
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Faults = 1
			exhaust(t, cfg)
		})
	}
}

func TestThreeCandidates(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates = 3
			exhaust(t, cfg)
		})
	}
}

// A leader is asked to go, for the last of those who wait to lead next.
func TestTransfer(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes for long: make test-all")
	}
	for i, item := range catalog.All() {
		if item.StepsAside {
			t.Run(item.Strategy.Name(), func(t *testing.T) {
				cfg := strategies[i].cfg
				cfg.Candidates, cfg.Faults, cfg.Kinds = 3, 1, []Fault{AskTo}
				exhaust(t, cfg)
			})
		}
	}
}

// A session is lost, and the next one is opened at a server that is behind.
func (e explored) behind() Config {
	cfg := e.cfg
	cfg.Faults, cfg.Kinds = 2, []Fault{Lag, Expire}
	return cfg
}

func TestBehind(t *testing.T) {
	for _, s := range strategies {
		if !s.designable() {
			t.Run(s.name, func(t *testing.T) { exhaust(t, s.behind()) })
		}
	}
}

// TestRanks has the faults that are an operator's wishes.
func TestDesignable(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes for long: make test-all")
	}
	for _, s := range strategies {
		if !s.designable() {
			continue
		}
		t.Run(s.name+"/two and a fault", func(t *testing.T) {
			cfg := s.cfg
			cfg.Faults, cfg.Kinds = 1, others
			exhaust(t, cfg)
		})
		t.Run(s.name+"/behind", func(t *testing.T) { exhaust(t, s.behind()) })
	}
}

// Each leads, and stands again.
func TestTwice(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Terms = 2
			exhaust(t, cfg)
		})
	}
}

// The election does not exist at first.
func TestFounding(t *testing.T) {
	for _, s := range strategies {
		if _, foreign := s.cfg.Strategy().(elector.CustomLayout); foreign {
			continue // its election needs no founding
		}
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates, cfg.Found = 3, true
			exhaust(t, cfg)
		})
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

// TestProve goes as far as its budget allows, and says how far.
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

// A wrapper that changes nothing, and a schedule that breaks nothing.
func TestExamples(t *testing.T) {
	cfg := fairly
	cfg.Backend = func(b backend.Backend) backend.Backend { return struct{ backend.Backend }{b} }
	exhaust(t, cfg)
	Replay(t, cfg, "fair/2/anabakapbnbbadbwbbbk")
}
