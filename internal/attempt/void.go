package attempt

import "testing"

// Void ends an attempt in which the test has measured itself that its environment failed: why
// says what it measured. [Run] tries again, as it does after an attempt that failed while the
// environment did. It is no excuse for what has failed before, nor for a panic of a cleanup.
//
// A test that is no attempt, as on fake time, fails with why. Void must be called from the
// goroutine of t.
func Void(t testing.TB, why string) {
	t.Helper()
	a, ok := t.(*attempt)
	if !ok {
		t.Fatalf("it could not be tried: %s", why)
	}
	a.mu.Lock()
	if a.failed.IsZero() {
		a.void = why
	}
	a.mu.Unlock()
	a.FailNow()
}

// Excuse has the attempt be void if it fails from here on: the test has measured itself, as why
// says, that its environment left less room than it needs. If it passes all the same, it counts.
// It is no excuse for a panic. On a test that is no attempt it does nothing.
func Excuse(t testing.TB, why string) {
	a, ok := t.(*attempt)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed.IsZero() {
		a.void = why
	}
}

// saidVoid returns what Void or Excuse was called with, "" if neither was or it was no excuse.
func (a *attempt) saidVoid() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.void
}
