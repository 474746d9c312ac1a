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

// A Try is one attempt at a rule, on a service of its own. Its methods that fail the rule must
// be called from the test's goroutine. The suite sets how long things take when it makes the
// rule's place.
type Try struct {
	T       testing.TB
	Service *kit.Service
	// State names the one of several states in which the rule is being tried.
	State string
	// NotApplicable says why the rule cannot be tried, if only the attempt could tell.
	NotApplicable string

	// Patience is how long the rule waits for what has to happen.
	Patience func() time.Duration
	// Pause is between two looks at what others bring about. It grows by a quarter with each look
	// until it is LongestPause.
	Pause, LongestPause time.Duration
	// Moment is what Settle takes on a real service.
	Moment time.Duration
	// More is told when the rule is broken, after what was seen.
	More func() string

	rule, text string
	on         string // service and strategy
}

// Finish has nothing to check, for a place that has none of its own.
func (t *Try) Finish() {}

// Lasting is the timeout of a session whose end no rule waits for. On a real service it outlives
// what a rule takes away for less than TTL, on a machine that is slow besides.
func (t *Try) Lasting() time.Duration {
	if t.Service.Virtual {
		return t.Service.TTL
	}
	return 3 * t.Service.TTL
}

// Failf says which rule is broken and what was seen, and ends the rule.
func (t *Try) Failf(format string, args ...any) {
	t.T.Helper()
	when := ""
	if t.State != "" {
		when = "\n\twhen: " + t.State
	}
	t.T.Fatalf("rule %s is broken on %s\n\trule: %s%s\n\tat:   %s\n\tsaw:  %s%s",
		t.rule, t.on, t.text, when, lines(), fmt.Sprintf(format, args...), t.More())
}

// FailIf is Failf if the rule is broken. What it is to say is evaluated in any case.
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
		case !more, strings.HasSuffix(frame.Function, ".Attempt.func1"): // what is below tries the rule
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

// Confirmed fails the rule on the error of a Close that the service could answer since began, and tells whether there was
// none. Backends give a server one to three seconds to confirm the end of a session (ZooKeeper's client library gives it
// one). A machine that stands still for as long leaves that to the session's timeout.
func (t *Try) Confirmed(what string, began time.Time, err error) bool {
	t.T.Helper()
	if err != nil && !t.Service.Virtual && time.Since(began) >= time.Second {
		return false
	}
	t.Must(what, err)
	return true
}

// Refused fails the rule unless err is all of want.
func (t *Try) Refused(what string, err error, want ...error) {
	t.T.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Failf("%s: error is %s, want %q", what, Text(err), w)
		}
	}
}

// Until waits for what others bring about.
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

// Settle lets what is on its way arrive: in a bubble until all goroutines are blocked, else for
// a moment. It never makes what is right fail a rule.
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

// IsClosed tells whether nothing is waited for on c any more.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// IsAny tells whether err is one of these.
func IsAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(target error) bool { return errors.Is(err, target) })
}

// Text quotes an error.
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
