// Package harness tries the rules of a suite, whichever it is: each in a subtest of its own,
// in a bubble where time is fake, and under a watch that ends what hangs. A suite brings its rules,
// and the place in which one of them is tried.
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

// A Rule is one promise and how to try it.
type Rule[P Place] struct {
	Name string
	Text string // one sentence, printed when the rule is broken
	// Need are fields of Service and Client without which it cannot be tried, and words of
	// the suite's own.
	Need []string
	// Apart says that the rule measures the process: no other of any suite is tried meanwhile.
	Apart bool
	// Long says why go test -short leaves the rule out on a service outside of the process, "" if
	// it does not. On a virtual service the rule is always tried.
	Long string
	Run  func(p P)
}

// alone tells whether the rule takes the service, or a member, away, or counts all that is there,
// so that no other can be tried beside it on the same service.
func (r Rule[P]) alone() bool {
	return takesAway(r.Need) || slices.Contains(r.Need, "Stored") || slices.Contains(r.Need, "Watches")
}

// Contract is why most rules are Long. The backends' suite holds that a backend keeps the contract of
// package backend, and the rule is tried on memory, which keeps it, too.
const Contract = "it follows from the contract of package backend"

// A Place is what a suite makes for one attempt at a rule: a [Try], and what its rules need.
type Place interface {
	// Finish checks what holds whatever the rule was about, once its function has returned.
	Finish()
	// End ends what the rule has begun, however it has ended. completed says that Finish has
	// returned: while a panic unwinds nobody has failed yet.
	End(completed bool)
}

// A Suite is a table of rules, and how they are tried.
type Suite[P Place] struct {
	Rules []Rule[P]
	// Strategy names what is tried in reports, beside the service. It may be "".
	Strategy string
	// Service makes a fresh service for each attempt, and one before, to see what it can be
	// made to do.
	Service func(t testing.TB) *kit.Service
	// Place makes the place for one attempt.
	Place func(t *Try) P
	// Limit is how long an attempt may take: of what takes twice as long, something hangs.
	Limit func(s *kit.Service) time.Duration
	// Words are what rules may need beside fields of Service and Client, and Lacks tells why what
	// is tried cannot keep a rule, as far as that is not the service's, "" if it can. Both may be nil.
	Words []string
	Lacks func(r Rule[P]) (why string)
	// States are those of a rule that are tried beside each other, in attempts of their own, when
	// its function has returned. It may be nil. With -short a real service is asked every fifth of many:
	// they are the same fault in different places, most with a session to wait for.
	States func(p P) []func(p P)
	// Parallel is called once nothing measures the process any more. It may be nil.
	Parallel func()

	soFar func() kit.Report // of Run, for the last words where a rule hangs
}

// Run tries each rule, in a subtest of its own, and logs and returns the report.
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
		for _, r := range s.Rules { // they join once the others are done
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

// trying is a suite being tried on one service.
type trying[P Place] struct {
	Suite[P]
	probe *kit.Service    // made to see what there is
	can   map[string]bool // what it can be made to do
}

// try tries one rule, and returns why it is not applicable, if so, and in how many of its states it was
// tried, if not in all. It calls join, or not, to run side by side with the others from then on.
func (y trying[P]) try(t *testing.T, r Rule[P], join func(t *testing.T)) (reason, in string) {
	if why := y.lacks(t, r); why != "" {
		return why, ""
	}
	if y.probe.Virtual {
		defer enter(r.Apart)()
		defer y.watch(r, 10*time.Minute)()
		// Subtests are forbidden in a bubble, so it goes inside of one.
		synctest.Test(t, func(t *testing.T) { reason, _ = y.Attempt(t, r) })
		return reason, ""
	}
	join(t)
	once := func(t *testing.T, r Rule[P]) (reason string, states []func(p P)) {
		defer enter(r.Apart)()
		defer y.watch(r, 2*y.Limit(y.probe))() // the making of the service, too
		return y.Attempt(t, r)
	}
	reason, states := once(t, r)
	if len(states) > 0 && !t.Failed() {
		// They are mostly waiting for something to time out.
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

// few states of a rule are tried all, with -short, too.
const few = 7

// everyFifth is of an uneven number, so that of nested loops it takes a bit of each.
func everyFifth[T any](all []T) (some []T) {
	for i := 0; i < len(all); i += 5 {
		some = append(some, all[i])
	}
	return some
}

// lacks tells why a rule cannot be tried here, "" if it can.
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
			t.Fatalf("the service has no %s, and no reason for it in Why[%q]", need, need)
		}
		if why == "" {
			why = fmt.Sprintf("no %s: %s", need, reason)
		}
	}
	return why
}

// Attempt makes one attempt at a rule. It returns why the rule has turned out to be not
// applicable, if so, and its states.
func (s Suite[P]) Attempt(t testing.TB, r Rule[P]) (reason string, states []func(p P)) {
	// Goroutines bear the labels of the one that started them, which tells those of this rule
	// from those of others.
	pprof.Do(context.Background(), pprof.Labels(label, t.Name()), func(context.Context) {
		svc := s.Service(t)
		// In a bubble time only gets there if all goroutines are blocked for good, and says whose
		// fault it is before synctest gives up.
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

// names are those of the rules of all suites.
var names []string

// Name notes the names of a suite's rules, for whoever mistypes one.
func Name[P Place](rules []Rule[P]) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
}

// mistyped tells whether a pattern of -run asks for rules, and no suite has one of that name. Of other
// tests that it names this one knows nothing.
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

// takesAway tells of what a rule needs whether it takes the service, a member or a
// directory away from the others.
func takesAway(need []string) bool {
	return slices.ContainsFunc(need, func(n string) bool {
		return slices.Contains([]string{"Stop", "StopMember", "PauseMember", "CutOffMember", "UseUp"}, n)
	})
}

// beside is shared by all rules of all suites that are being tried in this process. One that
// measures the process has it for itself.
var beside sync.RWMutex

// Limit is how long an attempt at most rules may take.
func Limit(s *kit.Service) time.Duration {
	if s.Virtual {
		return time.Hour + 100*s.TTL
	}
	return 5*time.Minute + 15*s.TTL // of what takes longer, something hangs
}

// enter waits until a rule may be tried beside those that are, or apart from all. Nobody who holds it may wait
// for a parallel subtest: those who wait for it have a place among the parallel ones already.
func enter(apart bool) (leave func()) {
	if apart {
		beside.Lock()
		return beside.Unlock
	}
	beside.RLock()
	return beside.RUnlock
}

// watch ends the program after d, with the rule's name and the report of the rules that were tried before, unless stop
// is called.
func (s Suite[P]) watch(r Rule[P], d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		before := ""
		if s.soFar != nil {
			before = fmt.Sprintf("\n\nbefore that:\n%v", s.soFar())
		}
		panic(fmt.Sprintf("rule %s hangs and does not heed its context\nrule: %s%s\n\n%s", r.Name, r.Text, before, stacks))
	})
	return func() { timer.Stop() }
}

// restore brings back what a rule that failed has left away, for other rules and for
// the other rules. A virtual service is the rule's own. completed is as in Place.End.
func restore(t testing.TB, s *kit.Service, need []string, completed bool) {
	t.Helper()
	if s.Virtual || completed && !t.Failed() || !takesAway(need) || s.Stop == nil || s.Start == nil {
		return
	}
	if err := errors.Join(s.Stop(), s.Start()); err != nil {
		t.Errorf("the service cannot be brought back: %v", err)
	}
}
