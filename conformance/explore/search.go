package explore

import (
	"fmt"
	"testing"
	"time"
)

// A search walks the tree of schedules, depth first. To go back it runs a schedule again from its start.
// It explores what follows from a state only once (see state).
type search struct {
	t       *testing.T
	cfg     Config
	report  Report
	began   time.Time
	visited map[stateKey]bool
	// path has one element for each step of the current schedule: the labels of the choices that are not
	// done there, the step's own first.
	path [][]string
}

// sample: one in so many schedules of a search is recorded.
const sample = 10

func (s *search) run() {
	s.visited = make(map[stateKey]bool)
	for {
		s.report.Failure = s.extend()
		s.report.Schedules++
		s.report.States = len(s.visited)
		if s.report.Failure != nil || !s.backtrack() {
			return
		}
		if s.report.Stopped = stopped(s.cfg, s.report.Schedules, s.began); s.report.Stopped != "" {
			return
		}
	}
}

// stopped returns which budget is used up, or "".
func stopped(cfg Config, schedules int, began time.Time) string {
	switch {
	case cfg.MaxSchedules > 0 && schedules >= cfg.MaxSchedules:
		return fmt.Sprintf("a budget of %d schedules", cfg.MaxSchedules)
	case cfg.Budget > 0 && time.Since(began) >= cfg.Budget:
		return fmt.Sprintf("a budget of %v", cfg.Budget.Round(time.Millisecond))
	}
	return ""
}

// extend runs the path, and continues from its end until there is nothing new.
func (s *search) extend() *Failure {
	return run(s.t, s.cfg, s.report.Schedules%sample == 0, func(w *world) (choice, bool) {
		s.report.Steps++
		if at := len(w.steps); at < len(s.path) {
			ch, ok := w.find(s.path[at][0])
			if !ok {
				s.report.Diverged++
				s.path = s.path[:at]
			}
			return ch, ok
		}
		all := w.choices()
		if len(all) == 0 {
			w.checkEnd()
			return choice{}, false
		}
		key, _ := w.state()
		if s.visited[key] {
			return choice{}, false
		}
		s.visited[key] = true
		s.path = append(s.path, labels(all))
		return all[0], true
	})
}

// backtrack cuts the end of the path, back to a state with something left to explore.
func (s *search) backtrack() bool {
	for last := len(s.path) - 1; last >= 0; last-- {
		if s.path[last] = s.path[last][1:]; len(s.path[last]) > 0 {
			return true
		}
		s.path = s.path[:last]
	}
	return false
}
