package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// A Report says what was explored, and with what result.
type Report struct {
	// Schedules is how many schedules were run, to their end or to a state that was explored already.
	// Steps is the number of their steps.
	Schedules, Steps int
	// States is the number of different states.
	States  int
	Elapsed time.Duration
	// Stopped says why not everything was explored, or is "" if everything was.
	Stopped string
	// Diverged counts schedules that went another way when they were repeated. If it is not zero, the
	// strategy or backend depends on more than the order of steps, and not everything was explored.
	Diverged int
	// Failure is the first one found, or nil.
	Failure *Failure
}

// Exhausted reports whether every schedule was explored, or is equal to one that was.
func (r Report) Exhausted() bool { return r.Stopped == "" && r.Diverged == 0 && r.Failure == nil }

// String returns the report in one line.
func (r Report) String() string {
	outcome := "exhausted"
	switch {
	case r.Failure != nil:
		outcome = "failed"
	case r.Stopped != "":
		outcome = "stopped by " + r.Stopped + ", not exhausted"
	case r.Diverged > 0:
		outcome = "not exhausted"
	}
	s := fmt.Sprintf("%s: %d schedules, %d steps, %d states, %v", outcome, r.Schedules, r.Steps, r.States, r.Elapsed.Round(time.Millisecond))
	if r.Diverged > 0 {
		s += fmt.Sprintf(", %d schedules diverged", r.Diverged)
	}
	return s
}

// A Failure is a schedule that breaks a rule.
type Failure struct {
	// Rule is the name of the rule, Saw what broke it.
	Rule, Saw string
	// Schedule is the argument for Replay.
	Schedule string
	// Length is the number of its steps.
	Length int
	// Trace is what happened, one line each.
	Trace []string
	// History is what the candidates did and saw, up to the step that broke the rule. It is nil if the
	// schedule went another way when it was repeated.
	History *history.History

	steps []string
}

// String returns the failure as a test prints it.
func (f *Failure) String() string {
	return fmt.Sprintf("rule %s is broken\n\trule: %s\n\tsaw:  %s\n\tschedule of %d steps: %s\n\t%s",
		f.Rule, rules[f.Rule], f.Saw, f.Length, f.Schedule, strings.ReplaceAll(strings.Join(f.Trace, "\n"), "\n", "\n\t"))
}
