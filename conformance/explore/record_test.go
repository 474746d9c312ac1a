package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/mutants"
)

// The histories of sound schedules, with all faults in them, are found to be sound.
func TestHistoriesOfSoundSchedules(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			cfg.Candidates, cfg.Faults, cfg.Terms = 3, 3, 2
			cfg = cfg.withDefaults()
			seen := make(map[history.Kind]int)
			for seed := range uint64(40) {
				walk := newWalk(cfg, rand.New(rand.NewPCG(seed, 1)))
				var of *world
				require.Nil(t, run(t, cfg, true, func(w *world) (choice, bool) {
					of = w
					return walk.next(w)
				}))
				h := of.history
				assert.Empty(t, h.Check(h.Promised))
				assert.Equal(t, porcupine.Ok, h.Linearizable(h.Promised).Result)
				assert.Len(t, h.Terms(), terms(of), "%v", of.steps)
				for _, e := range h.Events {
					seen[e.Kind]++
				}
			}
			for _, kind := range []history.Kind{history.Campaign, history.Enter, history.Valid, history.Context,
				history.Commit, history.Resign, history.Read, history.Fault, history.Force} {
				assert.NotZero(t, seen[kind], kind)
			}
		})
	}
}

// terms returns the number of terms.
func terms(w *world) (n int) {
	for _, c := range w.candidates {
		n += len(c.terms)
	}
	return n
}

// The saved history of a schedule that fails shows on its own what is wrong.
func TestFailureIsSaved(t *testing.T) {
	for _, test := range []struct {
		mutant, schedule, rule string
		check                  string // that finds it; "" if no order explains the calls
	}{
		// b and c have won, and both hold.
		{"predecessor's going taken for the win", "fair/3/bnbbancncbbkaK-tcwck", "one-holder", history.CheckOverlap},
		// b has begun when a, whose entry was deleted, writes.
		{"guard ignored", "fair/2/anabakbnbbaDbwbbbkap", "fenced", ""},
	} {
		t.Run(test.mutant, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			m, ok := mutants.Named(test.mutant)
			require.True(t, ok)
			cfg := strategies[0].mutated(m)
			cfg.Faults = 1
			f, err := replay(t, cfg, test.schedule)
			require.NoError(t, err)
			require.NotNil(t, f)
			assert.Equal(t, test.rule, f.Rule)

			said := listener{TB: t}
			f.fail(&said)
			assert.Contains(t, said.error, test.schedule)
			_, path, ok := strings.Cut(said.error, "history saved: ")
			require.True(t, ok, said.error)
			h, err := history.Load(path)
			require.NoError(t, err)
			if test.check == "" {
				assert.Equal(t, porcupine.Illegal, h.Linearizable(h.Promised).Result)
				return
			}
			found := h.Check(h.Promised)
			require.NotEmpty(t, found)
			assert.Equal(t, test.check, found[0].Check)
		})
	}
}

type listener struct {
	testing.TB
	error string
}

func (l *listener) Errorf(format string, args ...any) { l.error = fmt.Sprintf(format, args...) }

// A fault that only the history shows is found by Random, and in the sample of Exhaustive.
func TestHistoriesAreChecked(t *testing.T) {
	cfg := Config{Strategy: fairly.Strategy, New: func(c elector.Config) (elector.Elector, error) {
		e, err := elector.New(c)
		return sameToken{e}, err
	}}
	for name, r := range map[string]Report{"random": random(t, cfg, 1, 50), "exhaustive": exhaustive(t, cfg)} {
		require.NotNil(t, r.Failure, name)
		assert.Equal(t, "history", r.Failure.Rule)
		assert.Contains(t, r.Failure.Saw, history.CheckToken+": ")

		again, err := replay(t, cfg, r.Failure.Schedule)
		require.NoError(t, err)
		require.NotNil(t, again, r.Failure.Schedule)
		assert.Equal(t, r.Failure.Saw, again.Saw)
	}
}

// sameToken gives all terms one token, and reports the correct ones to the hooks.
type sameToken struct{ elector.Elector }

func (s sameToken) Campaign(ctx context.Context) (*elector.Term, error) {
	t, err := s.Elector.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	return elector.NewTerm(elector.TermConfig{
		Token: 1, Context: t.Context(), Guard: t.Guard, Valid: t.Valid, Proclaim: t.Proclaim, Commit: t.Commit, Resign: t.Resign,
	}), nil
}
