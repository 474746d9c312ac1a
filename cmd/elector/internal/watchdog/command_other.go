//go:build !unix

package watchdog

import (
	"syscall"
	"time"
)

// Supported reports whether there are watchdogs on this system.
const Supported = false

// Main fails: there is no watchdog here.
func Main([]string) int { return 2 }

// Adopt does nothing.
func Adopt() error { return nil }

// Spare does nothing.
func Spare(int) {}

// There is never a Command on this system.
type Command struct{}

// Start fails with ErrUnsupported.
func Start(Spec) (*Command, error) { return nil, ErrUnsupported }

// These are never called.

func (*Command) Started() <-chan int   { return nil }
func (*Command) Done() <-chan struct{} { return nil }
func (*Command) PID() int              { return 0 }
func (*Command) Until(time.Time)       {}
func (*Command) Signal(syscall.Signal) {}
func (*Command) Kill()                 {}
func (*Command) Result() Result        { return Result{} }
