package conformance

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a rule has left behind is found by its label, and by no other rule's.
func TestGoroutinesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		for _, rule := range []string{"suite/rules/a/one", `suite/rules/a/"two", attempt 2`, "suite/rules/a/three"} {
			pprof.Do(t.Context(), pprof.Labels(ruleLabel, rule), func(context.Context) {
				go func() { <-stop }()
				go func() { time.Sleep(time.Second) }() // it takes a moment to end
			})
		}
		got := left(synctest.Wait, "suite/rules/a/one", `suite/rules/a/"two", attempt 2`, "suite/rules/a/four")
		if len(got) != 2 {
			t.Errorf("left: %q", got)
		}
		for rule, said := range got {
			if !strings.HasPrefix(said, "1 goroutines are left") || !strings.Contains(said, "TestGoroutinesLeft") {
				t.Errorf("%s: %s", rule, said)
			}
		}
	})
}

// The check of all rules together fails the one that has left something.
func TestOverFailsTheRule(t *testing.T) { synctest.Test(t, overFailsTheRule) }

func overFailsTheRule(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	pprof.Do(t.Context(), pprof.Labels(ruleLabel, "x/rules/a/leaks"), func(context.Context) { go func() { <-stop }() })
	o := new(over)
	o.add("x/rules/a/leaks", "a/leaks")
	o.add("x/rules/a/sound", "a/sound")
	report := Report{Service: "x", Results: []Result{{Rule: "a/leaks", Outcome: Passed}, {Rule: "a/sound", Outcome: Passed}}}
	said := ""
	o.check(func(text string) { said += text }, &report)
	if report.Results[0].Outcome != Failed || report.Results[1].Outcome != Passed || !strings.Contains(said, "a/leaks is broken") {
		t.Errorf("%v\n%s", report, said)
	}
}
