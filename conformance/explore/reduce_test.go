package explore

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

var strategies = map[string]func() elector.Strategy{
	"fair":   func() elector.Strategy { return fair.New() },
	"unfair": func() elector.Strategy { return unfair.New() },
	"kafka":  func() elector.Strategy { return kafka.New() },
}

// What sleeps must be reached in another way: the states that are visited are the same
// as when no step is taken to commute with another.
func TestReductionLosesNoState(t *testing.T) {
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			for _, cfg := range []Config{
				{Strategy: strategy, Candidates: 3},
				{Strategy: strategy, Candidates: 2, Faults: 1, Kinds: []Fault{Expire, Cancel}},
			} {
				visit := func(commute func(a, b choice, left int) bool) (map[stateKey]string, int) {
					s := search{t: t, cfg: cfg.withDefaults(), began: time.Now(), commute: commute}
					s.run()
					require.True(t, s.report.Exhausted(), "%v", s.report)
					return s.visited, s.report.Schedules
				}
				reduced, few := visit(independent)
				all, many := visit(func(choice, choice, int) bool { return false })
				for state := range all {
					assert.Contains(t, reduced, state)
				}
				assert.Len(t, reduced, len(all))
				assert.Less(t, few, many)
				t.Logf("%d schedules instead of %d for %d states", few, many, len(all))
			}
		})
	}
}

// A schedule goes the same way again, whatever goroutine is faster, and recorded or not.
func TestSchedulesAreDeterministic(t *testing.T) {
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Strategy: strategy, Candidates: 3, Faults: 3}.withDefaults()
			for seed := range uint64(30) {
				var states []string
				var steps []string
				record := func(w *world) {
					text, _ := w.stateText()
					states = append(states, string(text))
				}
				walk := newWalk(cfg, rand.New(rand.NewPCG(seed, 0)))
				require.Nil(t, run(t, cfg, false, func(w *world) (choice, bool) {
					record(w)
					steps = slices.Clone(w.steps)
					return walk.next(w)
				}))
				before := states
				states = nil
				require.Nil(t, run(t, cfg, true, func(w *world) (choice, bool) {
					record(w)
					if len(w.steps) == len(steps) {
						return choice{}, false
					}
					ch, ok := w.find(steps[len(w.steps)])
					require.True(t, ok, "step %d of %v", len(w.steps), steps)
					return ch, true
				}))
				for i := range states {
					require.Equal(t, before[i], states[i], "after %v", steps[:i])
				}
			}
		})
	}
}

// Each label that is offered is found again by its name, and only those.
func TestChoicesAreFound(t *testing.T) {
	cfg := Config{Strategy: strategies["fair"], Candidates: 3, Faults: 3}.withDefaults()
	for seed := range uint64(20) {
		walk := newWalk(cfg, rand.New(rand.NewPCG(seed, 0)))
		run(t, cfg, false, func(w *world) (choice, bool) {
			var labels []string
			for _, ch := range w.choices() {
				found, ok := w.find(ch.label)
				assert.True(t, ok, "%s after %v", ch.label, w.steps)
				assert.Equal(t, ch.call, found.call)
				assert.Equal(t, ch.fault, found.fault)
				assert.NotContains(t, labels, ch.label)
				labels = append(labels, ch.label)
			}
			return walk.next(w)
		})
	}
}

func TestParse(t *testing.T) {
	strategy, candidates, steps, err := parse("fair/3/anab!aD-tbd2aRbd12!")
	require.NoError(t, err)
	assert.Equal(t, "fair", strategy)
	assert.Equal(t, 3, candidates)
	assert.Equal(t, []string{"an", "ab!", "aD", "-t", "bd2", "aR", "bd12!"}, steps)
	for _, bad := range []string{"", "fair", "fair/x/an", "fair/3/an/an"} {
		_, _, _, err := parse(bad)
		assert.Error(t, err, bad)
	}
}

func TestReplayRefusesWhatDoesNotFit(t *testing.T) {
	cfg := Config{Strategy: strategies["fair"]}
	for schedule, want := range map[string]string{
		"kafka/2/aw":   "is of strategy kafka",
		"fair/2/anak":  "step 2 of schedule",
		"fair/2/a":     "step 1 of schedule",
		"fair/0/an":    "1 to 16 candidates",
		"fair/2/cn":    "step 1 of schedule",
		"fair/2/an/an": "want strategy/candidates/steps",
	} {
		_, err := replay(t, cfg, schedule)
		assert.ErrorContains(t, err, want, schedule)
	}
}
