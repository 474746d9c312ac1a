package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A search goes through the tree of schedules, depth first. It has no way back but to
// run a schedule again from its start.
//
// Two reductions keep it from exploring the same twice, and from nothing else. What
// was explored from a state is not explored again from the same state (see state).
// And of steps that commute only one order is tried: a step that was explored before
// its sibling sleeps in the sibling's subtree until something happens that it does
// not commute with. Source: P. Godefroid, Partial-Order Methods for the Verification
// of Concurrent Systems, 1996, figure 5.2: sleep sets with state matching, by which
// all states are still visited.
type search struct {
	t       *testing.T
	cfg     Config
	report  Report
	began   time.Time
	visited map[stateKey]string // what sleeps there: labels, with canonical letters
	path    []*node
	commute func(a, b choice, left int) bool
}

// sample is of how many schedules of a search one is recorded.
const sample = 10

// A node is a state on the path that is being explored.
type node struct {
	choices []choice
	left    int      // faults that may still come
	sleep   []string // labels of choices
	todo    []int
	at      int // the choice being explored
}

func (s *search) run() {
	s.visited = make(map[stateKey]string)
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

// stopped says which budget is used up.
func stopped(cfg Config, schedules int, began time.Time) string {
	switch {
	case cfg.MaxSchedules > 0 && schedules >= cfg.MaxSchedules:
		return fmt.Sprintf("a budget of %d schedules", cfg.MaxSchedules)
	case cfg.Budget > 0 && time.Since(began) >= cfg.Budget:
		return fmt.Sprintf("a budget of %v", cfg.Budget.Round(time.Millisecond))
	}
	return ""
}

// extend runs the path, and goes on from its end until there is nothing new.
func (s *search) extend() *Failure {
	depth := 0
	return run(s.t, s.cfg, s.report.Schedules%sample == 0, func(w *world) (choice, bool) {
		s.report.Steps++
		if depth < len(s.path) {
			n := s.path[depth]
			ch, ok := w.find(n.choices[n.at].label)
			if !ok {
				s.report.Diverged++
				s.path = s.path[:depth]
				return choice{}, false
			}
			depth++
			return ch, true
		}
		n := s.enter(w)
		if n == nil {
			return choice{}, false
		}
		s.path = append(s.path, n)
		depth++
		return n.choices[n.at], true
	})
}

// enter makes the node of the present state, or nil if there is nothing to explore.
func (s *search) enter(w *world) *node {
	n := &node{choices: w.choices(), left: s.cfg.Faults - w.faults}
	if len(n.choices) == 0 {
		w.checkEnd()
		return nil
	}
	if len(s.path) > 0 {
		n.sleep = s.path[len(s.path)-1].sleepAfter(s.commute)
	}
	key, places := w.state()
	slept, seen := s.visited[key]
	if seen {
		before := places.rename(strings.Fields(slept), 1)
		slept := n.sleep
		n.sleep = common(before, slept)
		for i, ch := range n.choices {
			if slices.Contains(before, ch.label) && !slices.Contains(slept, ch.label) {
				n.todo = append(n.todo, i)
			}
		}
	} else {
		for i, ch := range n.choices {
			if !slices.Contains(n.sleep, ch.label) {
				n.todo = append(n.todo, i)
			}
		}
	}
	s.visited[key] = strings.Join(places.rename(n.sleep, 0), " ")
	if !n.next() {
		return nil
	}
	return n
}

// next goes on to the next choice, if there is one.
func (n *node) next() bool {
	if len(n.todo) == 0 {
		return false
	}
	n.at, n.todo = n.todo[0], n.todo[1:]
	return true
}

// sleepAfter is what sleeps after the choice being explored.
func (n *node) sleepAfter(commute func(a, b choice, left int) bool) []string {
	var still []string
	for _, ch := range n.choices {
		if slices.Contains(n.sleep, ch.label) && commute(ch, n.choices[n.at], n.left) {
			still = append(still, ch.label)
		}
	}
	return still
}

func common(a, b []string) []string {
	var both []string
	for _, label := range a {
		if slices.Contains(b, label) {
			both = append(both, label)
		}
	}
	return both
}

// backtrack leaves the end of the path, up to a node with something left to explore.
func (s *search) backtrack() bool {
	for len(s.path) > 0 {
		n := s.path[len(s.path)-1]
		n.sleep = append(slices.Clone(n.sleep), n.choices[n.at].label)
		if n.next() {
			return true
		}
		s.path = s.path[:len(s.path)-1]
	}
	return false
}
