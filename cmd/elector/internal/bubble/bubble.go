// Package bubble runs a function in simulated time.
//
// The clock is that of testing/synctest: in the bubble, package time shows a time of its
// own, which begins at midnight UTC on 2000-01-01 and moves on, to the next timer, at the
// moment at which all goroutines of the bubble wait. An hour of waiting takes no time. The
// code that runs needs no clock of its own to ask; it must not wait for anything outside,
// such as a network or a channel that was made elsewhere, for then time stands still.
//
// synctest.Test wants a testing.T, which go test makes. Its zero value serves here, in any
// program: all that Test does with it is to tell it of a failure, and there is none, since
// the function neither sees the T nor runs on the test's goroutine. No flag of package
// testing is registered or read, and nothing is printed. (testing.RunTests would be the
// other way to a T. Outside of go test it runs nothing: how often is said by flags that
// only testing.M parses, from os.Args.) The tests of this package hold all of that, in a
// program that go test has no hand in.
package bubble

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

// errEnded is the error of a function that ended its goroutine.
var errEnded = errors.New("bubble: the function has ended its goroutine instead of returning")

// Run runs f in a bubble of its own, and returns its error. A panic in f is an error, too.
// So is a deadlock, where all goroutines of the bubble wait and none for a time to come, or
// where some still wait after f has returned: those stay behind, and cost their memory.
// A panic on another goroutine than f's ends the program, as always.
//
// It blocks until all goroutines that f has started are gone. It must not be called from
// within a bubble: that is an error.
func Run(f func() error) error {
	var result error
	returned, ended := false, make(chan error, 1)
	go func() {
		defer func() {
			// Also where the T ends this goroutine.
			if p := recover(); p != nil {
				ended <- errors.Join(result, fmt.Errorf("bubble: %v", p))
			} else if !returned {
				ended <- errors.Join(result, errEnded)
			} else {
				ended <- result
			}
		}()
		synctest.Test(new(testing.T), func(*testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				gone := true
				defer func() {
					if p := recover(); p != nil {
						result = fmt.Errorf("bubble: panic: %v\n%s", p, debug.Stack())
					} else if gone {
						result = errEnded
					}
				}()
				result = f()
				gone = false
			}()
			<-done
		})
		returned = true
	}()
	return <-ended
}
