package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend"
)

// A rule is one promise and how to try it.
type rule struct {
	name string
	text string   // one sentence, printed when the rule is broken
	need []string // fields of Service and Client without which it cannot be tried
	// apart says that the rule measures the process: no other of any suite is tried meanwhile.
	apart bool
	run   func(r *run)
}

// A run is one rule being tried on a service of its own. Its methods that fail the
// rule must be called from the test's goroutine.
type run struct {
	t    testing.TB
	rule rule
	svc  *Service
	// ctx ends when the rule has taken so long that something must hang.
	ctx context.Context

	first    *Client // made to see what there is, and handed out by the first call of client
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	sessions []sess
	reason   string // why the rule is not applicable
}

// tryRules tries each rule, in a subtest of its own, and reports. It calls parallel, if there is
// one, once those that measure the process are done.
func tryRules(t *testing.T, newService func(t testing.TB) *Service, rules []rule, parallel func()) Report {
	probe := newService(t)
	on := tryOn(t, probe)
	var trials []trial
	for _, r := range rules {
		alone := takesAway(r.need) || slices.Contains(r.need, "Stored")
		trials = append(trials, trial{r.name, r.text, r.apart, alone, func(t *testing.T, join func(), void *voids) string {
			return tryRule(t, newService, probe, on, r, join, void)
		}})
	}
	return runTrials(t, Report{Service: probe.Name}, trials, parallel)
}

// tryRule returns why the rule is not applicable, if so.
func tryRule(t *testing.T, newService func(t testing.TB) *Service, probe *Service, on trying, rule rule, join func(), void *voids) (reason string) {
	if !probe.Virtual {
		join()
		defer enter(rule.apart)()
		on.attempts(t, takesAway(rule.need), void, func(t testing.TB) {
			defer watch(rule.name, rule.text, hangs(probe))()
			// Goroutines bear the labels of the one that started them, which tells those
			// of this rule from those of others.
			pprof.Do(context.Background(), pprof.Labels(ruleLabel, t.Name()), func(context.Context) {
				reason = try(t, newService, rule)
			})
		})
		return reason
	}
	defer enter(rule.apart)()
	defer watch(rule.name, rule.text, hangs(probe))()
	// Subtests are forbidden in a bubble, so it goes inside of one.
	synctest.Test(t, func(t *testing.T) {
		// Fake time only gets there if all goroutines are blocked for good, and
		// says whose fault it is before synctest gives up.
		defer watch(rule.name, rule.text, 2*limit(probe))()
		pprof.Do(context.Background(), pprof.Labels(ruleLabel, t.Name()), func(context.Context) {
			reason = try(t, newService, rule)
		})
	})
	return reason
}

// takesAway tells of what a rule needs whether it takes the service, a member or a
// directory away from the others.
func takesAway(need []string) bool {
	return slices.ContainsFunc(need, func(n string) bool {
		return slices.Contains([]string{"Stop", "StopMember", "PauseMember", "CutOffMember", "UseUp"}, n)
	})
}

// A trial is a rule of either suite about to be tried.
type trial struct {
	name, text string
	// apart says that the rule measures the process, so that nothing can be tried beside it.
	apart bool
	// alone says that the rule takes the service, or a member, away, or counts all that is
	// stored, so that no other can be tried beside it on the same service.
	alone bool
	// try returns why the rule is not applicable, if so. It calls join, or not, to run
	// side by side with the others from then on. It notes attempts that were void.
	try func(t *testing.T, join func(), void *voids) (reason string)
}

// runTrials runs each in a subtest of its own, and logs and returns the report. It calls
// parallel, if there is one, once nothing measures the process any more.
func runTrials(t *testing.T, report Report, trials []trial, parallel func()) Report {
	var mu sync.Mutex
	run := func(t *testing.T, name string, tr trial, join func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			result := Result{Rule: tr.name, Text: tr.text, Outcome: Failed}
			var void voids
			t.Cleanup(func() {
				result.Void = void.all()
				mu.Lock()
				defer mu.Unlock()
				report.Results = append(report.Results, result)
			})
			result.Reason = tr.try(t, func() { join(t) }, &void)
			switch {
			case t.Failed():
			case result.Reason != "":
				result.Outcome = NotApplicable
			default:
				result.Outcome = Passed
			}
		})
	}
	byItself := func(*testing.T) {}
	for _, tr := range trials {
		if tr.apart {
			run(t, "rules/"+tr.name, tr, byItself)
		}
	}
	if parallel != nil {
		parallel()
	}
	t.Run("rules", func(t *testing.T) {
		for _, tr := range trials {
			if tr.alone && !tr.apart {
				run(t, tr.name, tr, byItself)
			}
		}
		for _, tr := range trials { // they join once the others are done
			if !tr.alone && !tr.apart {
				run(t, tr.name, tr, (*testing.T).Parallel)
			}
		}
	})
	slices.SortFunc(report.Results, func(x, y Result) int { return strings.Compare(x.Rule, y.Rule) })
	t.Log(report)
	return report
}

// beside is shared by all rules of all suites that are being tried in this process. One that
// measures the process has it for itself.
var beside sync.RWMutex

// enter waits until a rule may be tried beside those that are. Nobody who holds it may wait
// for a parallel subtest: those who wait for it have a place among the parallel ones already.
func enter(apart bool) (leave func()) {
	if apart {
		beside.Lock()
		return beside.Unlock
	}
	beside.RLock()
	return beside.RUnlock
}

// limit is when a rule's context ends.
func limit(s *Service) time.Duration {
	if s.Virtual {
		return time.Hour + 100*s.TTL
	}
	return 30*time.Second + 15*s.TTL
}

// hangs is when a rule has ignored the end of its context for so long, in real
// time, that the test has to be ended by force.
func hangs(s *Service) time.Duration {
	if s.Virtual {
		return 2 * time.Minute
	}
	return 2 * limit(s)
}

// watch ends the program after d, with the rule's name, unless stop is called.
func watch(name, text string, d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("rule %s hangs and does not heed its context\nrule: %s\n\n%s", name, text, stacks))
	})
	return func() { timer.Stop() }
}

// try tries one rule and returns why it is not applicable, if so.
func try(t testing.TB, newService func(t testing.TB) *Service, rule rule) (reason string) {
	r := &run{t: t, rule: rule, svc: newService(t)}
	r.ctx, r.cancel = context.WithTimeout(context.Background(), limit(r.svc))
	defer r.stop()
	completed := false
	defer func() { restore(t, r.svc, rule.need, completed) }()
	if why, ok := r.svc.Why[rule.name]; ok {
		r.reason = why
	} else {
		r.first = r.svc.Client(t)
		for _, field := range rule.need {
			if r.has(field) {
				continue
			}
			why, ok := r.svc.Why[field]
			if !ok {
				r.failf("the service has no %s, and no reason for it in Why[%q]", field, field)
			}
			r.reason = fmt.Sprintf("no %s: %s", field, why)
		}
	}
	if r.reason == "" {
		rule.run(r)
	}
	completed = true
	if r.reason != "" {
		t.Logf("rule %s is not applicable: %s", rule.name, r.reason)
	}
	return r.reason
}

func (r *run) has(field string) bool {
	can, known := can(r.svc, r.first)[field]
	if !known {
		r.failf("the suite asks for %s, which it does not know", field)
	}
	return can
}

// restore brings back what a rule that failed has left away, for the next attempt and for
// the other rules. A virtual service is the rule's own. completed says that the rule's
// function has returned: while a panic unwinds nobody has failed yet.
func restore(t testing.TB, s *Service, need []string, completed bool) {
	t.Helper()
	if s.Virtual || completed && !t.Failed() || !takesAway(need) || s.Stop == nil || s.Start == nil {
		return
	}
	if err := errors.Join(s.Stop(), s.Start()); err != nil {
		t.Errorf("the service cannot be brought back: %v", err)
	}
}

// stop ends what the rule started: its goroutines, then its sessions.
func (r *run) stop() {
	r.cancel()
	r.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, s := range r.sessions {
		closing.Go(func() {
			_ = s.Close(ctx) // the rules that are about Close look at its error
		})
	}
	closing.Wait()
}

// failf says which rule is broken and what was seen, and ends the rule.
func (r *run) failf(format string, args ...any) {
	r.t.Helper()
	saw := fmt.Sprintf(format, args...)
	if r.ctx.Err() != nil {
		saw += fmt.Sprintf(" (after %v: it hangs)", limit(r.svc))
	}
	for i, s := range r.sessions {
		if state := s.State(); state != backend.Live {
			saw += fmt.Sprintf("; session %d of %d (%s) is %v", i+1, len(r.sessions), s.ID(), state)
		}
	}
	r.t.Fatalf("rule %s is broken on %s\n\trule: %s\n\tsaw:  %s", r.rule.name, r.svc.Name, r.rule.text, saw)
}

// can is what the suites can have done to a service, and to a process of it. One lookup serves
// both: what is forgotten here is not taken for there.
func can(s *Service, c *Client) map[string]bool {
	return map[string]bool{
		"Delete":       s.Delete != nil,
		"Put":          s.Put != nil,
		"UseUp":        s.UseUp != nil,
		"Stop":         s.Stop != nil && s.Start != nil,
		"StopMember":   s.StopMember != nil && s.StartMember != nil && s.ClientAt != nil,
		"PauseMember":  s.PauseMember != nil && s.ResumeMember != nil && s.ClientAt != nil,
		"CutOffMember": s.CutOffMember != nil && s.MendMember != nil && s.ClientAt != nil,
		"Watches":      s.Watches != nil,
		"Stored":       s.Stored != nil,
		"MaxOps":       s.MaxOps > 0,
		"MaxBytes":     s.MaxBytes > 0,
		"Suspend":      c.Suspend != nil && c.Resume != nil,
		"Expire":       c.Expire != nil,
		"LoseReply":    c.LoseReply != nil,
		"CutReply":     c.CutReply != nil && c.Resume != nil,
		"LoseRequest":  c.LoseRequest != nil,
		"DelayRequest": c.DelayRequest != nil,
		"Throttle":     c.Throttle != nil,
		"Deny":         c.Deny != nil,
		"SlowReplies":  c.SlowReplies != nil,
		"HoldRequests": c.HoldRequests != nil,
		"HoldWakeups":  c.HoldWakeups != nil,
	}
}
