// Package judge tells what becomes of a test that fails, in a test that does not: for the tests
// of the suites.
package judge

import (
	"runtime"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
)

// Contained calls try once and tells whether it has failed. t goes on, however it has ended.
func Contained(t testing.TB, try func(t testing.TB)) (failed bool) {
	done := false
	attempt.Run(t, environment("a test"), nil, func(t testing.TB) {
		if done {
			return
		}
		done = true
		defer func() {
			failed = t.Failed()
			t.Fail() // it is void, and the next one ends well
		}()
		try(t)
	})
	return failed
}

// A Judgement is what has become of a test.
type Judgement struct {
	Tries  int
	Failed bool
	Void   []string
}

// Attempts makes attempts at a test in an environment that is well, and lets it fail.
func Attempts(t testing.TB, try func(t testing.TB)) (j Judgement) {
	j.Failed = Contained(t, func(t testing.TB) {
		j.Void = attempt.Run(t, environment(""), nil, func(t testing.TB) {
			j.Tries++
			try(t)
		})
	})
	return j
}

// Ends are the ways of a test to end without having passed.
var Ends = map[string]func(t testing.TB){
	"fails":   func(t testing.TB) { t.Fatal("x") },
	"panics":  func(testing.TB) { panic("boom") },
	"exits":   func(testing.TB) { runtime.Goexit() },
	"is void": func(t testing.TB) { attempt.Void(t, "by itself") },
	"skips":   func(t testing.TB) { t.SkipNow() },
}

// An environment has this trouble all the time.
type environment string

func (e environment) Trouble(time.Time, time.Time) string { return string(e) }
func (environment) Latest(time.Time, time.Time) string    { return "" }
func (environment) Settle() string                        { return "" }
