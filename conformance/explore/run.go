package explore

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// run runs one schedule. If tell, it records the history and checks it. pick chooses the next step, until
// it returns false.
func run(t *testing.T, cfg Config, tell bool, pick func(w *world) (choice, bool)) (failure *Failure) {
	var w *world
	defer watch(&w)()
	defer func() {
		// A bubble panics if goroutines are left in it.
		if stuck := recover(); stuck != nil {
			if w == nil || !w.over {
				panic(stuck)
			}
			w.broken("leftover", "%v", stuck)
			failure = w.report()
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(cfg, tell)
		for w.failure == nil {
			ch, ok := pick(w)
			if !ok {
				break
			}
			if len(w.steps) == maxSteps {
				w.broken("endless", "still not ended after %d steps", maxSteps)
				break
			}
			w.do(ch)
		}
		if tell {
			w.history = w.rec.History()
			w.history.Promised = cfg.promised()
		}
		w.finish()
	})
	if tell && w.failure == nil {
		w.checkHistory()
	}
	return w.report()
}

// report returns the failure with its schedule, or nil.
func (w *world) report() *Failure {
	if w.failure == nil {
		return nil
	}
	f := *w.failure
	f.steps, f.Length, f.Trace, f.History = w.steps, len(w.steps), w.trace, w.history
	f.Schedule = fmt.Sprintf("%s/%d/%s", w.cfg.Strategy().Name(), w.cfg.Candidates, strings.Join(w.steps, ""))
	return &f
}

// watch ends the program, with the steps so far, if the whole schedule takes longer than two minutes: it
// assumes that a step does not end. stop ends the watch.
func watch(of **world) (stop func()) {
	timer := time.AfterFunc(2*time.Minute, func() {
		w := *of
		if w == nil {
			panic("explore: the candidates never become idle at the start: do they wait for something outside of the backend?")
		}
		w.mu.Lock()
		panic(fmt.Sprintf("explore: the candidates never become idle after %s", strings.Join(w.steps, "")))
	})
	return func() { timer.Stop() }
}

// parse reads the steps of a schedule.
func parse(schedule string) (strategy string, candidates int, steps []string, err error) {
	parts := strings.Split(schedule, "/")
	if len(parts) != 3 {
		return "", 0, nil, fmt.Errorf("schedule %q: want strategy/candidates/steps", schedule)
	}
	if _, err := fmt.Sscan(parts[1], &candidates); err != nil {
		return "", 0, nil, fmt.Errorf("schedule %q: number of candidates: %w", schedule, err)
	}
	for at := 0; at < len(parts[2]); {
		end := min(at+2, len(parts[2]))
		for end < len(parts[2]) && strings.IndexByte("0123456789!~", parts[2][end]) >= 0 {
			end++
		}
		steps = append(steps, parts[2][at:end])
		at = end
	}
	return parts[0], candidates, steps, nil
}
