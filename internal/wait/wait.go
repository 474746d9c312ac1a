// Package wait lets tests on real servers wait for events that must come.
package wait

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// Patience limits every wait of such a test. It is no promise: a machine with a tenth of the usual speed
// takes ten times as long for all that a test does, and an early event ends the wait early. Events that
// must come in time are compared with times that the test has noted.
const Patience = 3 * time.Minute

// For waits until holds returns true, and calls it every few milliseconds. After Patience it ends the test
// and names the event that never came. It calls holds on the test's own goroutine, so holds may end the
// test, too.
func For(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Receive returns the next value. After Patience it ends the test and names the event that never came.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		t.Fatalf("never: %s", what)
	}
	return v
}

// A Result is the results of a call.
type Result[T any] struct {
	V   T
	Err error
}

// Later makes a call on another goroutine. The channel receives its results.
func Later[T any](call func() (T, error)) <-chan Result[T] {
	returned := make(chan Result[T], 1)
	go func() {
		v, err := call()
		returned <- Result[T]{v, err}
	}()
	return returned
}

// Returned returns the results of a call of Later. After Patience it ends the test and shows all stacks.
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

// Value is Returned for a call that succeeds.
func Value[T any](t testing.TB, call <-chan Result[T]) T {
	t.Helper()
	v, err := Returned(t, call)
	if err != nil {
		t.Fatalf("it returned %v", err)
	}
	return v
}

// Fails is Returned for a call whose error matches all of these.
func Fails[T any](t testing.TB, call <-chan Result[T], want ...error) {
	t.Helper()
	v, err := Returned(t, call)
	for _, is := range want {
		if !errors.Is(err, is) {
			t.Fatalf("it returned %+v, %v; want the error %q", v, err, is)
		}
	}
}

// Pending ends the test if a call has returned.
func Pending[T any](t testing.TB, call <-chan Result[T]) {
	t.Helper()
	select {
	case r := <-call:
		t.Fatalf("it returned %+v, %v", r.V, r.Err)
	default:
	}
}
