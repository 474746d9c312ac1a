package harness

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

// A Try is one attempt at a rule, on a service of its own. Methods that fail the rule must be called from
// the test's goroutine. The suite sets the durations when it makes the rule's place.
type Try struct {
	T       testing.TB
	Service *kit.Service
	// State names the state in which the rule is tried, if it has several.
	State string
	// NotApplicable says why the rule cannot be tried, if only the attempt could find out.
	NotApplicable string

	// Patience is how long the rule waits for what must happen.
	Patience func() time.Duration
	// Pause is the time between two looks in Until. It grows by a quarter with each look, up to
	// LongestPause.
	Pause, LongestPause time.Duration
	// Moment is how long Settle takes on a real service.
	Moment time.Duration
	// More returns text for the failure of a broken rule, printed after what was seen.
	More func() string

	rule, text string
	on         string // service and strategy
}

// Finish checks nothing. It is for a place that has no check of its own.
func (t *Try) Finish() {}

// Lasting is the timeout of a session whose end no rule waits for. On a real service, even on a slow
// machine, it outlives an outage shorter than TTL that a rule causes.
func (t *Try) Lasting() time.Duration {
	if t.Service.Virtual {
		return t.Service.TTL
	}
	return 3 * t.Service.TTL
}

// Failf reports which rule is broken and what was seen, and ends the rule.
func (t *Try) Failf(format string, args ...any) {
	t.T.Helper()
	when := ""
	if t.State != "" {
		when = "\n\twhen: " + t.State
	}
	t.T.Fatalf("rule %s is broken on %s\n\trule: %s%s\n\tat:   %s\n\tsaw:  %s%s",
		t.rule, t.on, t.text, when, lines(), fmt.Sprintf(format, args...), t.More())
}

// FailIf is Failf if broken. The arguments are evaluated in any case.
func (t *Try) FailIf(broken bool, format string, args ...any) {
	t.T.Helper()
	if broken {
		t.Failf(format, args...)
	}
}

// lines returns the lines of the rule that led to Failf, the innermost first.
func lines() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	var all []string
	for {
		frame, more := frames.Next()
		switch {
		case !more, strings.HasSuffix(frame.Function, ".Attempt.func1"): // the frames below run the rule
			return strings.Join(all, ", ")
		case filepath.Base(frame.File) != "try.go":
			all = append(all, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
	}
}

// Must fails the rule on an error.
func (t *Try) Must(what string, err error) {
	t.T.Helper()
	if err != nil {
		t.Failf("%s: %v", what, err)
	}
}

// Confirmed fails the rule on an error of Close, except on a real service a second or more after began,
// when the service could first answer. It reports whether there was no error. Backends give a server one
// to three seconds to confirm the end of a session (ZooKeeper's client library: one). On a machine that
// stops as long the session times out.
func (t *Try) Confirmed(what string, began time.Time, err error) bool {
	t.T.Helper()
	if err != nil && !t.Service.Virtual && time.Since(began) >= time.Second {
		return false
	}
	t.Must(what, err)
	return true
}

// Refused fails the rule unless err matches all of want.
func (t *Try) Refused(what string, err error, want ...error) {
	t.T.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Failf("%s: error is %s, want %q", what, Text(err), w)
		}
	}
}

// Until waits until holds returns true, and fails the rule after Patience.
func (t *Try) Until(what string, holds func() bool) {
	t.T.Helper()
	patience, pause := t.Patience(), t.Pause
	for end := time.Now().Add(patience); !holds(); time.Sleep(pause) {
		if !time.Now().Before(end) {
			t.Failf("not within %v: %s", patience, what)
		}
		pause = min(pause+pause/4, t.LongestPause)
	}
}

// Settle lets what is on its way arrive: in a bubble until all goroutines are blocked, otherwise for a
// moment. A correct implementation never fails a rule because of Settle.
func (t *Try) Settle() {
	if t.Service.Virtual {
		time.Sleep(t.Service.Slow)
		synctest.Wait()
		return
	}
	time.Sleep(t.Moment)
}

// Goroutines returns the stacks of the goroutines that were started for the rule.
func (t *Try) Goroutines() []string { return goroutines(t.T.Name(), t.Service) }

// IsClosed reports whether c is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// IsAny reports whether err matches one of these.
func IsAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(target error) bool { return errors.Is(err, target) })
}

// Text returns the error quoted, or nil.
func Text(err error) string {
	if err == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", err)
}

// Keys returns the entries' keys.
func Keys(entries []backend.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Key
	}
	return out
}
