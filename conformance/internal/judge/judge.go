// Package judge runs a test that fails inside a test that does not. It is for the tests of the suites.
package judge

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Fails calls try with a testing.TB of its own, and reports whether it has failed. A panic of try's
// goroutine is a failure, too. t continues, however try has ended.
func Fails(t testing.TB, try func(t testing.TB)) bool {
	t.Helper()
	c := &contained{TB: t}
	c.do(func() { try(c) })
	for len(c.cleanups) > 0 {
		last := len(c.cleanups) - 1
		cleanup := c.cleanups[last]
		c.cleanups = c.cleanups[:last]
		c.do(cleanup)
	}
	return c.Failed()
}

// Ends are the ways in which a test can end without having passed.
var Ends = map[string]func(t testing.TB){
	"fails":  func(t testing.TB) { t.Fatal("x") },
	"panics": func(testing.TB) { panic("boom") },
	"exits":  func(testing.TB) { runtime.Goexit() },
	"skips":  func(t testing.TB) { t.SkipNow() },
}

// contained is a testing.TB with its own failure and cleanups. It logs to the test around it.
type contained struct {
	testing.TB
	mu              sync.Mutex
	failed, skipped bool
	cleanups        []func()
}

// do calls a function on a goroutine of its own, as FailNow ends the goroutine that calls it.
func (c *contained) do(call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if v := recover(); v != nil {
				c.Errorf("panic: %v", v)
			} else if !returned && !c.Failed() && !c.Skipped() {
				c.Errorf("ended by runtime.Goexit")
			}
		}()
		call()
		returned = true
	}()
	<-done
}

func (c *contained) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

func (c *contained) Fail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
}

func (c *contained) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *contained) Skipped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skipped
}

func (c *contained) FailNow() {
	c.Fail()
	runtime.Goexit()
}

func (c *contained) SkipNow() {
	c.mu.Lock()
	c.skipped = true
	c.mu.Unlock()
	runtime.Goexit()
}

func (c *contained) Errorf(format string, args ...any) {
	c.Helper()
	c.Logf(format, args...)
	c.Fail()
}

func (c *contained) Fatalf(format string, args ...any) {
	c.Helper()
	c.Logf(format, args...)
	c.FailNow()
}

func (c *contained) Error(args ...any) { c.Errorf("%s", fmt.Sprint(args...)) }
func (c *contained) Fatal(args ...any) { c.Fatalf("%s", fmt.Sprint(args...)) }
