package explore

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/mutants"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

// orderMutants are mutants whose fault shows only in some orders of steps, with the strategies that show
// it, the rules that may be found broken, and the maximum steps of the counterexample. The explorer gets
// only the strategy.
var orderMutants = []struct {
	mutant, strategies, rules string
	length                    int
}{
	{"event lost between read and watch", "fair unfair kafka", "progress", 12},
	{"list read before it is watched", "parentwatch", "progress", 12},
	{"guard checked before compare-and-set", "fair unfair kafka parentwatch", "fenced", 8},
	{"guard ignored", "fair unfair kafka parentwatch", "fenced", 6},
	{"delete hits another incarnation", "unfair", "one-holder own-entry", 30},
	{"predecessor skipped", "fair", "order", 6},
	{"predecessor's going taken for the win", "fair", "order one-holder", 12},
	{"win without own entry", "fair", "own-entry", 12},
	{"wait not released at the loss", "fair", "progress", 14},
	{"watches forgotten at a reconnection", "fair", "progress", 14},
	{"taken seat is taken for the own", "unfair", "own-entry", 4},
	{"listed once", "parentwatch", "order one-holder", 12},
	{"win as the second", "parentwatch", "order one-holder", 8},
	{"unfit candidate waits on", "fair parentwatch", "fit", 6},
	{"fit once, fit until it leads", "fair", "fit", 6},
	{"epoch raised by two", "kafka", "invariant", 12},
	{"claim in two steps", "kafka", "invariant tokens-rise", 12},
	{"win without being listed", "parentwatch", "own-entry", 12},
	{"heir does not wait for the leader", "fair", "order one-holder", 25},
	{"stands by the old entry", "fair", "progress own-entry ghost", 40},
}

func TestMutants(t *testing.T) {
	for _, m := range orderMutants {
		mutant, ok := mutants.Named(m.mutant)
		require.True(t, ok, m.mutant)
		for _, s := range strategies {
			if !slices.Contains(strings.Fields(m.strategies), s.name) {
				continue
			}
			t.Run(m.mutant+"/"+s.name, func(t *testing.T) {
				if m.length > 20 && testing.Short() {
					t.Skip("those that show late take most of the time: make test-all")
				}
				hunt(t, s.mutated(mutant), m.rules, m.length)
			})
		}
	}
}

// A companion that acts on a live process, on another process, or with an Execute that ends more than the
// will says, makes two leaders. The last two are tried with the strategies that show it soon.
func TestWrongCompanions(t *testing.T) {
	more, ok := mutants.Named("will ends the next session, too")
	require.True(t, ok)
	for _, c := range []struct {
		name       string
		companion  companion
		mutant     mutants.Mutant
		kind       Fault
		strategies string
	}{
		{"takes a stopped process for a dead one", companion{stopped: true}, mutants.Mutant{}, Suspend, strings.Join(catalog.Names(), " ")},
		{"takes another process for the dead one", companion{another: true}, mutants.Mutant{}, Crash, "fair kafka"},
		{"ends one session more", companion{}, more, Crash, "fair"},
	} {
		for _, s := range strategies {
			if !slices.Contains(strings.Fields(c.strategies), s.name) {
				continue
			}
			t.Run(c.name+"/"+s.name, func(t *testing.T) {
				cfg := s.mutated(c.mutant)
				cfg.companion, cfg.Kinds = c.companion, []Fault{c.kind}
				cfg.Distinct = true // another or the next depends on the ID
				hunt(t, cfg, "one-holder tokens-rise own-entry", 20)
			})
		}
	}
}

// hunt checks that one of the rules is found broken in at most length steps, and again in a replay.
func hunt(t *testing.T, cfg Config, rules string, length int) {
	cfg.Candidates, cfg.Faults, cfg.MaxSchedules = 3, 1, 100_000 // and no Budget: the machine may be busy
	r := Hunt(t, cfg)
	require.NotNil(t, r.Failure, "not found: %v", r)
	assert.Contains(t, strings.Fields(rules), r.Failure.Rule, "%v", r.Failure)
	assert.LessOrEqual(t, r.Failure.Length, length, "%v", r.Failure)

	again, err := replay(t, cfg, r.Failure.Schedule)
	require.NoError(t, err)
	require.NotNil(t, again, r.Failure.Schedule)
	assert.Equal(t, r.Failure.Rule, again.Rule)
	assert.Equal(t, r.Failure.Saw, again.Saw)
	t.Logf("%s, by %d steps: %s\n%v", r.Failure.Rule, r.Failure.Length, r.Failure.Schedule, r)
}

// mutated returns the Config of the strategy with a mutant.
func (e explored) mutated(m mutants.Mutant) Config {
	cfg := e.cfg
	cfg.Strategy = func() strategy.Strategy { return m.Strategy(e.cfg.Strategy()) }
	cfg.Backend, cfg.New = m.Backend, m.New
	return cfg
}

// Hunt finds nothing in strategies without a fault.
func TestNoMutant(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.mutated(mutants.Mutant{})
			cfg.Candidates, cfg.Faults, cfg.MaxSchedules = 3, 1, 30
			r := Hunt(t, cfg)
			require.Nil(t, r.Failure)
			t.Log(r)
		})
	}
}
