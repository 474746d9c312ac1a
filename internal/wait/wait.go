// Package wait has tests on real servers wait for what must come.
package wait

import (
	"runtime"
	"testing"
	"time"
)

// Patience bounds whatever such a test waits for. It is no promise: a machine with a tenth of the
// usual speed takes ten times as long for all that a test does, and what comes early ends the
// wait early. What must come in time is compared with times that the test has noted.
const Patience = 3 * time.Minute

// For waits until holds returns true, and asks it every few milliseconds. After Patience it ends
// the test, and says what never came. It calls holds on the test's own goroutine, so holds may
// end the test, too.
func For(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Receive returns what comes next, and ends the test after Patience. It says what never came.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		t.Fatalf("never: %s", what)
	}
	return v
}

// A Result is what a call has returned.
type Result[T any] struct {
	V   T
	Err error
}

// Later makes a call on a goroutine of its own, and returns what it returns.
func Later[T any](call func() (T, error)) <-chan Result[T] {
	returned := make(chan Result[T], 1)
	go func() {
		v, err := call()
		returned <- Result[T]{v, err}
	}()
	return returned
}

// Returned returns what a call of Later has returned. After Patience it ends the test, and shows where it hangs.
func Returned[T any](t testing.TB, call <-chan Result[T]) (T, error) {
	t.Helper()
	select {
	case r := <-call:
		return r.V, r.Err
	case <-time.After(Patience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("it hangs:\n%s", stacks[:runtime.Stack(stacks, true)])
		panic("unreachable")
	}
}
