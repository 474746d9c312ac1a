package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Exhaustive explores all schedules of cfg, or as many as its budget allows. It fails t with the first
// schedule that breaks a rule, shortened. It must not be called in a bubble of testing/synctest.
func Exhaustive(t *testing.T, cfg Config) Report {
	t.Helper()
	cfg.check(t)
	return exhaustive(t, cfg).fail(t)
}

func exhaustive(t *testing.T, cfg Config) Report {
	s := search{t: t, cfg: cfg.withDefaults(), began: time.Now()}
	s.run()
	s.report.Failure = shorten(t, s.cfg, s.report.Failure)
	s.report.Elapsed = time.Since(s.began)
	return s.report
}

// fail fails t with the failure of the report, if there is one.
func (r Report) fail(t *testing.T) Report {
	t.Helper()
	if r.Failure != nil {
		r.Failure.fail(t)
	}
	t.Log(r)
	return r
}

// Hunt looks for a short schedule that breaks a rule, and does not fail t. It is for testing that a known
// fault is found. It starts with two candidates and no faults, and continues to cfg.Faults faults and to
// more candidates: first with a few random schedules of each, then with all, within the budget of cfg for
// each. Failure is nil if it finds none. The counts are totals.
func Hunt(t *testing.T, cfg Config) Report {
	t.Helper()
	cfg.check(t)
	cfg = cfg.withDefaults()
	var all Report
	for _, look := range []func(Config) Report{
		func(at Config) Report { return random(t, at, 1, 300) },
		func(at Config) Report { return exhaustive(t, at) },
	} {
		all.Stopped = "" // random schedules always stop
		for candidates := 2; candidates <= cfg.Candidates; candidates++ {
			for faults := 0; faults <= cfg.Faults; faults++ {
				at := cfg
				at.Candidates, at.Faults = candidates, faults
				if all = all.plus(look(at)); all.Failure != nil {
					return all
				}
			}
		}
	}
	return all
}

// Replay runs the schedule of a Failure again, with the Config that it was found with, and fails t if it
// breaks a rule.
func Replay(t *testing.T, cfg Config, schedule string) {
	t.Helper()
	cfg.check(t)
	failure, err := replay(t, cfg, schedule)
	switch {
	case err != nil:
		t.Error(err)
	case failure != nil:
		failure.fail(t)
	}
}

func replay(t *testing.T, cfg Config, schedule string) (*Failure, error) {
	strategy, candidates, steps, err := parse(schedule)
	if err != nil {
		return nil, err
	}
	cfg.Candidates = candidates
	cfg = cfg.withDefaults()
	if name := cfg.Strategy().Name(); name != strategy {
		return nil, fmt.Errorf("schedule %q is of strategy %s, but Config.Strategy is %s", schedule, strategy, name)
	}
	if candidates < 1 || candidates > MaxCandidates {
		return nil, fmt.Errorf("schedule %q: 1 to %d candidates are possible", schedule, MaxCandidates)
	}
	failure := run(t, cfg, true, func(w *world) (choice, bool) {
		at := len(w.steps)
		if at == len(steps) {
			if w.calm = true; len(w.choices()) == 0 {
				w.checkEnd()
			}
			return choice{}, false
		}
		ch, ok := w.find(steps[at])
		if !ok {
			err = fmt.Errorf("step %d of schedule %q, %s, is not possible at that point: was it found with another Config?", at+1, schedule, steps[at])
		}
		return ch, ok
	})
	return failure, err
}

// shorten looks for a shorter schedule that breaks the same rule. It leaves steps out, many at first, and
// runs the rest without another preemption.
func shorten(t *testing.T, cfg Config, f *Failure) *Failure {
	if f == nil {
		return nil
	}
	steps := f.steps
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(steps); at++ {
			without := append(slices.Clone(steps[:at]), steps[at+size:]...)
			tried := attempt(t, cfg, without, f.Rule == "history")
			if tried != nil && tried.Rule == f.Rule && len(tried.steps) < len(steps) {
				steps, shorter = tried.steps, true
				break
			}
		}
		if !shorter {
			size /= 2
		}
	}
	if told := attempt(t, cfg, steps, true); told != nil {
		return told
	}
	return f // it does not happen again
}

// attempt runs the steps that are possible, and then the rest without faults.
func attempt(t *testing.T, cfg Config, steps []string, tell bool) *Failure {
	if cfg.Faults > 0 {
		cfg.Faults = len(steps) // the steps determine them
	}
	at := 0
	return run(t, cfg, tell, func(w *world) (choice, bool) {
		for at < len(steps) {
			at++
			if ch, ok := w.find(steps[at-1]); ok {
				return ch, true
			}
		}
		w.calm = true
		if all := w.choices(); len(all) > 0 {
			return all[0], true
		}
		w.checkEnd()
		return choice{}, false
	})
}

func (r Report) plus(o Report) Report {
	r.Schedules += o.Schedules
	r.Steps += o.Steps
	r.States += o.States
	r.Elapsed += o.Elapsed
	r.Diverged += o.Diverged
	r.Failure = o.Failure
	if o.Stopped != "" {
		r.Stopped = strings.TrimPrefix(r.Stopped+", "+o.Stopped, ", ")
	}
	return r
}
