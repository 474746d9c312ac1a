package explore

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/mutants"
)

// A companion may execute the wills of a dead process at any moment, twice, and late.
func TestCompanion(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.companion.again = true
			cfg.Faults, cfg.Kinds = 1, []Fault{Crash}
			exhaust(t, cfg)
		})
	}
}

// One that acts on a process that is not dead, on another process, or with an Execute that ends more than
// it is told to, makes two leaders. The last two are tried with the strategies that show it soon.
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
		{"takes a stopped process for a dead one", companion{stopped: true}, mutants.Mutant{}, Suspend, "fair unfair kafka parentwatch ranked"},
		{"takes another process for the dead one", companion{another: true}, mutants.Mutant{}, Crash, "fair kafka"},
		{"ends one session more", companion{}, more, Crash, "fair"},
	} {
		for _, s := range strategies {
			if !slices.Contains(strings.Fields(c.strategies), s.name) {
				continue
			}
			t.Run(c.name+"/"+s.name, func(t *testing.T) {
				cfg := s.mutated(c.mutant)
				cfg.companion = c.companion
				cfg.Distinct = true // which one is another, or the next
				cfg.Candidates, cfg.Faults, cfg.Kinds, cfg.MaxSchedules = 3, 1, []Fault{c.kind}, 100_000
				r := Hunt(t, cfg)
				require.NotNil(t, r.Failure, "not found: %v", r)
				assert.Contains(t, []string{"one-holder", "tokens-rise", "own-entry"}, r.Failure.Rule, "%v", r.Failure)
				t.Logf("%d steps: %s\n%v", r.Failure.Length, r.Failure.Schedule, r)
			})
		}
	}
}
