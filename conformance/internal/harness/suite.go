// Package harness runs the rules of a suite: each in a subtest of its own, in a bubble with fake time on
// a virtual service, and under a time limit that ends what hangs. A suite brings its rules, and the place
// in which one rule is tried.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/conformance/kit"
)

// A Rule is one promise, and the function that tests it.
type Rule[P Place] struct {
	Name string
	Text string // the promise, printed when the rule is broken
	// Need lists the fields of Service and Client that the rule requires, and words of the suite's own.
	Need []string
	// Apart says that the rule measures the process: no other rule of any suite runs meanwhile.
	Apart bool
	// Long says why go test -short leaves the rule out on a service outside of the process. It is "" if
	// the rule is not left out. On a virtual service the rule always runs.
	Long string
	Run  func(p P)
}

// alone reports whether the rule takes away the service or a member, or counts everything that is there,
// so that no other rule can run beside it on the same service.
func (r Rule[P]) alone() bool {
	return takesAway(r.Need) || slices.Contains(r.Need, "Stored") || slices.Contains(r.Need, "Watches")
}

// Contract is the reason why most rules are Long: the backends' suite checks that a backend keeps the
// contract of package backend, and the rule is also tried on memory, which keeps it, too.
const Contract = "it follows from the contract of package backend"

// A Place is what a suite makes for one attempt at a rule: a [Try], and what its rules need.
type Place interface {
	// Finish checks what holds in every rule. It is called after the rule's function has returned.
	Finish()
	// End ends everything that the rule has begun, however the rule ended. completed says that Finish has
	// returned: while a panic unwinds, the test has not failed yet.
	End(completed bool)
}

// A Suite is a table of rules, and how to run them.
type Suite[P Place] struct {
	Rules []Rule[P]
	// Strategy names the strategy in reports, beside the service. It may be "".
	Strategy string
	// Service makes a fresh service for each attempt, and one before, to see what it can do.
	Service func(t testing.TB) *kit.Service
	// Place makes the place for one attempt.
	Place func(t *Try) P
	// Limit is how long an attempt may take. After twice that time it hangs, and the program ends.
	Limit func(s *kit.Service) time.Duration
	// Words are what rules may need besides fields of Service and Client. Lacks returns why the
	// implementation, apart from the service, cannot keep a rule, or "" if it can. Both may be nil.
	Words []string
	Lacks func(r Rule[P]) (why string)
	// States returns the states of a rule that run in parallel, in attempts of their own, after the
	// rule's function has returned. It may be nil. With -short a real service is tried in every fifth of
	// many states: they are the same fault in different places, and most wait for a session.
	States func(p P) []func(p P)
	// Parallel is called when nothing measures the process any more. It may be nil.
	Parallel func()

	soFar func() kit.Report // the report of Run so far, printed when a rule hangs
}

// Run tries each rule in a subtest of its own, and logs and returns the report.
func (s Suite[P]) Run(t *testing.T) kit.Report {
	svc := s.Service(t)
	report := kit.Report{Strategy: s.Strategy, Service: svc.Name}
	var mu sync.Mutex
	s.soFar = func() kit.Report {
		mu.Lock()
		defer mu.Unlock()
		return report
	}
	on := trying[P]{s, svc, can(svc, svc.Client(t))}
	run := func(t *testing.T, name string, r Rule[P], join func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			result := kit.Result{Rule: r.Name, Text: r.Text, Outcome: kit.Failed}
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				report.Results = append(report.Results, result)
			})
			if testing.Short() && !svc.Virtual && r.Long != "" {
				result.Outcome, result.Reason = kit.LeftOut, r.Long
				t.Skipf("rule %s is left out by -short: %s", r.Name, r.Long)
			}
			reason, in := on.try(t, r, join)
			switch {
			case t.Failed():
			case reason != "":
				t.Logf("rule %s is not applicable: %s", r.Name, reason)
				result.Outcome, result.Reason = kit.NotApplicable, reason
			default:
				result.Outcome, result.Reason = kit.Passed, in
			}
		})
	}
	byItself := func(*testing.T) {}
	for _, r := range s.Rules {
		if r.Apart {
			run(t, "rules/"+r.Name, r, byItself)
		}
	}
	if s.Parallel != nil {
		s.Parallel()
	}
	t.Run("rules", func(t *testing.T) {
		for _, r := range s.Rules {
			if r.alone() && !r.Apart {
				run(t, r.Name, r, byItself)
			}
		}
		for _, r := range s.Rules { // they run in parallel once the others are done
			if !r.alone() && !r.Apart {
				run(t, r.Name, r, (*testing.T).Parallel)
			}
		}
	})
	if len(report.Results) == 0 && mistyped(flag.Lookup("test.run").Value.String()) {
		t.Error("no rule was tried: none has the name that -run asks for")
	}
	slices.SortFunc(report.Results, func(x, y kit.Result) int { return strings.Compare(x.Rule, y.Rule) })
	t.Log(report)
	return report
}

// trying is a suite that runs on one service.
type trying[P Place] struct {
	Suite[P]
	probe *kit.Service    // made to see what the service can do
	can   map[string]bool // by field of Service and Client
}

// try tries one rule. It returns why the rule is not applicable, or "", and in how many of its states it
// was tried, or "" if in all. It calls join, or not, to run in parallel with others from then on.
func (y trying[P]) try(t *testing.T, r Rule[P], join func(t *testing.T)) (reason, in string) {
	if why := y.lacks(t, r); why != "" {
		return why, ""
	}
	if y.probe.Virtual {
		defer enter(r.Apart)()
		defer y.watch(r, 10*time.Minute)()
		// Subtests are forbidden in a bubble, so the bubble is inside the subtest.
		synctest.Test(t, func(t *testing.T) { reason, _ = y.Attempt(t, r) })
		return reason, ""
	}
	join(t)
	once := func(t *testing.T, r Rule[P]) (reason string, states []func(p P)) {
		defer enter(r.Apart)()
		defer y.watch(r, 2*y.Limit(y.probe))() // the making of the service is included
		return y.Attempt(t, r)
	}
	reason, states := once(t, r)
	if len(states) > 0 && !t.Failed() {
		// They mostly wait for timeouts.
		all := len(states)
		if testing.Short() && all > few {
			states = everyFifth(states)
			in = fmt.Sprintf("in %d of %d states; -short leaves out the others", len(states), all)
		}
		t.Run("states", func(t *testing.T) {
			for i, run := range states {
				state := r
				state.Run = run
				t.Run(fmt.Sprint(i+1), func(t *testing.T) {
					t.Parallel()
					once(t, state)
				})
			}
		})
	}
	return reason, in
}

// few is the largest number of states that are all tried with -short, too.
const few = 7

// everyFifth steps by an odd number, so that it takes a bit of each of nested loops.
func everyFifth[T any](all []T) (some []T) {
	for i := 0; i < len(all); i += 5 {
		some = append(some, all[i])
	}
	return some
}

// lacks returns why a rule cannot be tried here, or "" if it can.
func (y trying[P]) lacks(t *testing.T, r Rule[P]) (why string) {
	t.Helper()
	if y.Lacks != nil {
		why = y.Lacks(r)
	}
	if why == "" {
		why = y.probe.Why[r.Name]
	}
	if why != "" {
		return why
	}
	for _, need := range r.Need {
		can, known := y.can[need]
		if can || slices.Contains(y.Words, need) {
			continue
		}
		if !known {
			t.Fatalf("the suite asks for %s, which it does not know", need)
		}
		reason := y.probe.Reason(need)
		if reason == "" {
			t.Fatalf("the service has no %s, and Why[%q] gives no reason for it", need, need)
		}
		if why == "" {
			why = fmt.Sprintf("no %s: %s", need, reason)
		}
	}
	return why
}

// Attempt makes one attempt at a rule. It returns why the rule has turned out to be not applicable, or
// "", and the rule's states.
func (s Suite[P]) Attempt(t testing.TB, r Rule[P]) (reason string, states []func(p P)) {
	// A goroutine inherits the labels of the goroutine that started it. That tells this rule's goroutines
	// from those of others.
	pprof.Do(context.Background(), pprof.Labels(label, t.Name()), func(context.Context) {
		svc := s.Service(t)
		// In a bubble time reaches the limit only if all goroutines are blocked for good. Then the watch
		// names the rule before synctest gives up.
		defer s.watch(r, 2*s.Limit(svc))()
		try := &Try{T: t, Service: svc, rule: r.Name, text: r.Text, on: svc.Name}
		if s.Strategy != "" {
			try.on += ", " + s.Strategy
		}
		place := s.Place(try)
		completed := false
		defer func() { place.End(completed) }()
		defer func() { restore(t, svc, r.Need, completed) }()
		r.Run(place)
		place.Finish()
		completed = true
		reason = try.NotApplicable
		if s.States != nil {
			states = s.States(place)
		}
	})
	return reason, states
}

// names are the names of the rules of all suites.
var names []string

// Name notes the names of a suite's rules, so that a mistyped name is reported.
func Name[P Place](rules []Rule[P]) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
}

// mistyped reports whether a pattern of -run asks for rules, and no suite has a rule of that name. It
// knows nothing of other tests that the pattern names.
func mistyped(run string) bool {
	parts := strings.Split(run, "/")
	at := slices.IndexFunc(parts, func(part string) bool { return strings.Trim(part, "^$") == "rules" })
	if at < 0 {
		return false
	}
	parts = parts[at+1:]
	return !slices.ContainsFunc(names, func(name string) bool {
		for i, part := range strings.Split(name, "/") {
			if i < len(parts) {
				if ok, err := regexp.MatchString(parts[i], part); err != nil || !ok {
					return false
				}
			}
		}
		return true
	})
}

// takesAway reports whether a rule with these needs takes the service, a member or a directory away from
// other rules.
func takesAway(need []string) bool {
	return slices.ContainsFunc(need, func(n string) bool {
		return slices.Contains([]string{"Stop", "StopMember", "PauseMember", "CutOffMember", "UseUp"}, n)
	})
}

// beside is locked for reading by each rule of all suites that runs in this process, and for writing by a
// rule that measures the process.
var beside sync.RWMutex

// Limit is a Suite's Limit that is long enough for most rules.
func Limit(s *kit.Service) time.Duration {
	if s.Virtual {
		return time.Hour + 100*s.TTL
	}
	return 5*time.Minute + 15*s.TTL
}

// enter waits until a rule may run beside others, or apart from all. A caller that holds it must not wait
// for a parallel subtest: subtests that wait in enter already take up places among the parallel ones.
func enter(apart bool) (leave func()) {
	if apart {
		beside.Lock()
		return beside.Unlock
	}
	beside.RLock()
	return beside.RUnlock
}

// watch ends the program after d, with the rule's name and the report of the rules tried before, unless
// stop is called.
func (s Suite[P]) watch(r Rule[P], d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		before := ""
		if s.soFar != nil {
			before = fmt.Sprintf("\n\nbefore that:\n%v", s.soFar())
		}
		panic(fmt.Sprintf("rule %s hangs and ignores its context\nrule: %s%s\n\n%s", r.Name, r.Text, before, stacks))
	})
	return func() { timer.Stop() }
}

// restore brings back what a failed rule took away, for the rules that follow. A virtual service belongs
// to the rule alone. completed is as in Place.End.
func restore(t testing.TB, s *kit.Service, need []string, completed bool) {
	t.Helper()
	if s.Virtual || completed && !t.Failed() || !takesAway(need) || s.Stop == nil || s.Start == nil {
		return
	}
	if err := errors.Join(s.Stop(), s.Start()); err != nil {
		t.Errorf("the service cannot be brought back: %v", err)
	}
}
