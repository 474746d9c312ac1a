package explore

import (
	"math/rand/v2"
	"testing"
	"time"
)

// changes is how many times priorities change in a walk. A fault that needs changes+1 ordering
// constraints is found with a known probability.
const changes = 3

// Random explores n schedules of cfg, or as many as its budget allows, each drawn from seed and its
// number. It fails t with the first that breaks a rule, shortened. It is for what is too much for
// Exhaustive: more candidates, more faults.
//
// The walk uses priorities: of what may happen next, the choice with the highest priority happens.
// Priorities are random, and at a few random steps the highest choice gets the lowest priority. Faults
// happen at random steps. Source: Burckhardt, Kothari, Musuvathi and Nagarakatte, A Randomized Scheduler
// with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010.
func Random(t *testing.T, cfg Config, seed uint64, n int) Report {
	t.Helper()
	cfg.check(t)
	return random(t, cfg, seed, n).fail(t)
}

func random(t *testing.T, cfg Config, seed uint64, n int) (r Report) {
	cfg = cfg.withDefaults()
	began := time.Now()
	seen := make(map[stateKey]bool)
	for r.Schedules < n && r.Failure == nil && r.Stopped == "" {
		walk := newWalk(cfg, rand.New(rand.NewPCG(seed, uint64(r.Schedules))))
		r.Failure = run(t, cfg, true, func(w *world) (choice, bool) {
			r.Steps++
			key, _ := w.state()
			seen[key] = true
			return walk.next(w)
		})
		r.Schedules++
		r.Stopped = stopped(cfg, r.Schedules, began)
	}
	if r.Failure == nil && r.Stopped == "" {
		r.Stopped = "its number of random schedules"
	}
	r.Failure = shorten(t, cfg, r.Failure)
	r.States, r.Elapsed = len(seen), time.Since(began)
	return r
}

// A walk is one random schedule.
type walk struct {
	rnd      *rand.Rand
	priority map[string]float64
	change   map[int]bool // at these steps
	fail     map[int]bool
	step     int
	lowest   float64
}

func newWalk(cfg Config, rnd *rand.Rand) *walk {
	v := &walk{rnd: rnd, priority: make(map[string]float64), change: make(map[int]bool), fail: make(map[int]bool)}
	length := 12 * cfg.Candidates * cfg.Terms // about the length of a schedule
	for range changes {
		v.change[rnd.IntN(length)] = true
	}
	for range cfg.Faults {
		v.fail[rnd.IntN(length)] = true
	}
	return v
}

func (v *walk) next(w *world) (choice, bool) {
	var calm, faults []choice
	for _, ch := range w.choices() {
		if ch.fault {
			faults = append(faults, ch)
		} else {
			calm = append(calm, ch)
		}
	}
	if len(calm) == 0 {
		w.checkEnd()
		return choice{}, false
	}
	v.step++
	if v.fail[v.step] && len(faults) > 0 {
		return faults[v.rnd.IntN(len(faults))], true
	}
	if v.change[v.step] {
		v.lowest--
		v.priority[thread(v.highest(calm))] = v.lowest
	}
	return v.highest(calm), true
}

func (v *walk) highest(of []choice) (highest choice) {
	for i, ch := range of {
		if _, known := v.priority[thread(ch)]; !known {
			v.priority[thread(ch)] = v.rnd.Float64()
		}
		if i == 0 || v.priority[thread(ch)] > v.priority[thread(highest)] {
			highest = ch
		}
	}
	return highest
}

// thread returns what has a priority: a candidate's own steps, the background steps of its term, its
// link, or the clock.
func thread(ch choice) string {
	switch {
	case ch.call == nil:
		return ch.label
	case ch.call.kind == callAwait || ch.call.kind == callSet:
		return ch.label[:1] + "w"
	}
	return ch.label[:1]
}
