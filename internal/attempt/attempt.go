// Package attempt tells a test that failed from a test whose environment failed.
//
// A test on a real server asks for a session that lives. Where the machine or the server
// stands still for too long the session is lost, and what the test sees then says nothing
// about what it tests. So an [Environment] is observed beside it, and [Run] tries again what
// failed while the environment did. What fails while the environment is well is broken, at
// once: this is no retry of failures.
package attempt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// Most is how often Run tries at most.
const Most = 3

// An Observer tells of the environment of a test: see [Environment].
type Observer interface {
	// Trouble tells what was wrong in a stretch of time, "" if nothing was.
	Trouble(from, to time.Time) (why string)
	// Latest tells how near it came to that.
	Latest(from, to time.Time) string
	// Settle blocks until the environment has been well for a while, and returns "", or what is
	// still wrong when that takes too long.
	Settle() (why string)
}

// Run calls try until an attempt counts: until it passes, or fails while the environment is
// well. Then t has failed, or was skipped, as the attempt has. It blocks until then, and must
// be called from the goroutine of t.
//
// An attempt is void if something was wrong between its beginning and its first failure. What
// is wrong later, while it cleans up, is no excuse. The next one begins when the environment has
// settled, lest one standstill uses up all. After [Most] of them t has failed, too: a test that
// could not be tried is not green. An attempt that passes counts, whatever the environment was
// like. A panic is never blamed on the environment.
//
// Each attempt has a testing.TB of its own, whose Cleanup, Context, Failed and Skipped are
// those of the attempt; its cleanups are done before it is judged. What it logs goes to the
// log of t. Its Name is that of t, with the number of the attempt from the second one on.
//
// Before the last attempt, and before the environment settles for it, Run calls alone, which may
// be nil: it has all else in this process wait, lest a crowd takes the environment away three times.
// If the environment does not settle for an earlier attempt, the next one is the last.
//
// Run returns why attempts were void, one reason for each.
func Run(t testing.TB, env Observer, alone func(), try func(t testing.TB)) (void []string) {
	t.Helper()
	for n := 1; n <= Most; n++ {
		a := &attempt{TB: t, n: n}
		from := time.Now()
		a.run(try)
		switch {
		case a.Failed():
		case a.Skipped():
			t.SkipNow()
		default:
			return void
		}
		why := ""
		at, panicked := a.failure()
		if !panicked {
			if why = a.saidVoid(); why == "" {
				why = env.Trouble(from, at)
			}
		}
		if why == "" {
			t.Logf("the environment was well: %s", env.Latest(from, at))
			t.Fail()
			return void
		}
		void = append(void, why)
		t.Logf("attempt %d of %d is void, as its environment failed, too: %s", n, Most, why)
		if n == Most {
			break
		}
		if n < Most-1 {
			if why = env.Settle(); why == "" {
				continue
			}
			n = Most - 1 // the others may be what keeps it from that
		}
		if alone != nil {
			alone()
		}
		if why = env.Settle(); why != "" {
			t.Errorf("void, and not tried again, as the environment does not become well: %s", why)
			return void
		}
	}
	t.Errorf("void %d times in a row, so it could not be tried: the machine is too busy, the servers are too slow, "+
		"or what is tested keeps them from their work. The last time %s", len(void), void[len(void)-1])
	return void
}

// An attempt is the testing.TB of one attempt. What it does not override is that of the test:
// its log, its temporary directories, its environment.
type attempt struct {
	testing.TB
	n   int
	ctx context.Context

	mu                      sync.Mutex
	failed                  time.Time // the first time
	skipped, panicked, over bool
	cleanups                []func()
	void                    string // why, as the test says itself
}

// run calls try and then the cleanups, the last one first.
func (a *attempt) run(try func(testing.TB)) {
	ctx, cancel := context.WithCancel(a.TB.Context())
	defer cancel()
	a.ctx = ctx
	a.do(func() { try(a) })
	cancel()
	for next := a.pop(); next != nil; next = a.pop() {
		a.do(next)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

func (a *attempt) pop() func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.cleanups) - 1
	if last < 0 {
		return nil
	}
	next := a.cleanups[last]
	a.cleanups = a.cleanups[:last]
	return next
}

// do calls a function on a goroutine of its own, as FailNow ends the goroutine that calls it.
func (a *attempt) do(call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if v := recover(); v != nil {
				a.mu.Lock()
				a.panicked = true
				a.mu.Unlock()
				a.Errorf("panic: %v\n\n%s", v, debug.Stack())
			} else if !returned && !a.Failed() && !a.Skipped() {
				a.Errorf("ended by runtime.Goexit")
			}
		}()
		call()
		returned = true
	}()
	<-done
}

// failure tells when the attempt failed, and whether by a panic.
func (a *attempt) failure() (at time.Time, panicked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed, a.panicked
}

func (a *attempt) Name() string {
	if a.n == 1 {
		return a.TB.Name()
	}
	return fmt.Sprintf("%s, attempt %d", a.TB.Name(), a.n)
}

// ArtifactDir keeps what a later attempt leaves apart from what the first one left.
func (a *attempt) ArtifactDir() string {
	dir := a.TB.ArtifactDir()
	if a.n == 1 {
		return dir
	}
	dir = filepath.Join(dir, fmt.Sprint("attempt-", a.n))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		a.Fatal(err)
	}
	return dir
}

func (a *attempt) Context() context.Context { return a.ctx }

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

// Fail of a goroutine that has outlived its attempt fails the test: nobody would hear of it
// otherwise.
func (a *attempt) Fail() {
	a.mu.Lock()
	if a.failed.IsZero() {
		a.failed = time.Now()
	}
	over := a.over
	a.mu.Unlock()
	if over {
		a.TB.Fail()
	}
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.failed.IsZero()
}

func (a *attempt) Skipped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.skipped
}
