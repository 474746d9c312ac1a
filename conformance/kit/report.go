package kit

import (
	"fmt"
	"strings"
)

// Outcome says whether a rule passed.
type Outcome int

const (
	Passed Outcome = iota + 1
	Failed
	NotApplicable
	// LeftOut: go test -short leaves the rule out on a service that is not Virtual.
	LeftOut
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Passed:
		return "passed"
	case Failed:
		return "FAILED"
	case NotApplicable:
		return "not applicable"
	case LeftOut:
		return "left out by -short"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// A Result is the result of one rule on one service.
type Result struct {
	// Rule is its name, such as "await/in-order". Text is the rule itself.
	Rule, Text string
	Outcome    Outcome
	// Reason says why the rule is not applicable, or left out. For a rule that passed it says what -short
	// left out of it.
	Reason string
}

// A Report lists the results of all rules of a suite on one service.
type Report struct {
	// Strategy is the strategy's name, "" in a report of conformance.TestBackend.
	Strategy string
	// Service is the service's name.
	Service string
	Results []Result
}

// Count returns how many rules had the outcome.
func (p Report) Count(o Outcome) int {
	n := 0
	for _, r := range p.Results {
		if r.Outcome == o {
			n++
		}
	}
	return n
}

// String returns a line for the whole, and a line for each rule.
func (p Report) String() string {
	var b strings.Builder
	if p.Strategy != "" {
		fmt.Fprintf(&b, "%s on ", p.Strategy)
	}
	fmt.Fprintf(&b, "%s: %d rules passed, %d failed, %d not applicable, %d left out by -short",
		p.Service, p.Count(Passed), p.Count(Failed), p.Count(NotApplicable), p.Count(LeftOut))
	longest := 0
	for _, r := range p.Results {
		longest = max(longest, len(r.Rule))
	}
	for _, r := range p.Results {
		fmt.Fprintf(&b, "\n  %-*s %v", longest, r.Rule, r.Outcome)
		if r.Reason != "" {
			fmt.Fprintf(&b, ": %s", r.Reason)
		}
	}
	return b.String()
}
