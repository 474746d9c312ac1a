package explore

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// A schedule repeats exactly, whichever goroutine is faster, recorded or not.
func TestSchedulesAreDeterministic(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates, cfg.Faults = 3, 3
			cfg = cfg.withDefaults()
			for seed := range uint64(30) {
				var states []string
				var steps []string
				record := func(w *world) {
					text, _ := w.stateText()
					states = append(states, string(text))
					offered := slices.Sorted(slices.Values(labels(w.choices())))
					require.Len(t, slices.Compact(slices.Clone(offered)), len(offered), "two alike of %v after %v", offered, w.steps)
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

// Equal states offer the same choices, and each choice leads from them to the same state, regardless of
// the past.
func TestSameStatesGoOnAlike(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes for long: make test-all")
	}
	type edge struct {
		from   stateKey
		choice string
	}
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates, cfg.Faults = 2, 4
			cfg = cfg.withDefaults()
			choices := make(map[stateKey][]string)
			edges := make(map[edge]stateKey)
			again := 0
			for seed := range uint64(1500) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				var last edge
				require.Nil(t, run(t, cfg, false, func(w *world) (choice, bool) {
					at, places := w.state()
					if len(w.steps) > 0 {
						if to, known := edges[last]; known {
							again++
							require.Equal(t, to, at, "by %s after %v", last.choice, w.steps)
						}
						edges[last] = at
					}
					all := w.choices()
					renamed := labels(all)
					for i, label := range renamed {
						if letter, is := places[label[0]]; is {
							renamed[i] = string(letter) + label[1:]
						}
					}
					offered := slices.Sorted(slices.Values(renamed))
					if before, known := choices[at]; known {
						require.Equal(t, before, offered, "after %v", w.steps)
					}
					choices[at] = offered
					if len(all) == 0 {
						return choice{}, false
					}
					n := rnd.IntN(len(all))
					last = edge{at, renamed[n]}
					return all[n], true
				}))
			}
			t.Logf("%d states, %d steps, %d of them taken again", len(choices), len(edges), again)
		})
	}
}

// The labels of two equal calls do not depend on which of the two goroutines comes first.
func TestAlikeCalls(t *testing.T) {
	ways := []func(func()){
		func(call func()) { call() },
		func(call func()) { call() },
	}
	var labels [2]map[string]int // by label: the index of the way that the call came
	for first := range labels {
		labels[first] = make(map[string]int)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := &world{svc: memory.New(memory.Options{})}
			c := &candidate{world: w, letter: 'a'}
			w.candidates = []*candidate{c}
			s, err := w.svc.Client("a").Open(ctx, backend.OpenOptions{TTL: ttl})
			require.NoError(t, err)
			came := make(map[*call]int)
			for _, way := range []int{first, 1 - first} {
				go ways[way](func() {
					k := c.call(callGuards, "ask")
					k.session, came[k] = s, way
					w.park(ctx, k)
				})
				synctest.Wait()
			}
			for _, ch := range w.calls(c) {
				labels[first][ch.label] = came[ch.call]
			}
			cancel()
			require.NoError(t, s.Close(t.Context()))
		})
	}
	assert.Len(t, labels[0], 2)
	assert.Equal(t, labels[0], labels[1])
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
	cfg := fairly
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
