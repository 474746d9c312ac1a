// Package watchdog runs a command, with all the processes that it starts, until an instant that may be
// moved, and no longer: a process of its own, the watchdog, kills them at that instant. So it does at
// once when whoever has started it is gone. The first may then be frozen, or killed: the command ends.
//
// The watchdog is this very program, started with the argument Word. It is the parent of the command,
// which leads a process group of its own. On Linux the watchdog also adopts what the command's
// processes leave behind, other groups and sessions included, and the kernel kills the command should
// the watchdog itself be killed.
package watchdog

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Word is the first argument of the process that is to be a watchdog: it calls Main with the others.
const Word = "run-watchdog"

// ErrUnsupported is the error of Start where it is not Supported, as on Windows.
var ErrUnsupported = errors.New("this takes Unix: process groups, and a clock that processes share")

// Spec says what is to run.
type Spec struct {
	// Path is the program, and Args its arguments, without its name.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	// Stdin, Stdout and Stderr are the command's own; nil is the null device.
	Stdin, Stdout, Stderr *os.File
	// Until is when all of it is killed, unless Command.Until moves that.
	Until time.Time
	// Hold is for the watchdog: it says lastwill.Done to it once nothing of the command is left, or if
	// it was not started. The command does not get it. nil: nobody waits for that word.
	Hold *os.File
}

// A Result is how a command has ended.
type Result struct {
	// Code is the exit code, and 128 and the signal's number if a signal has ended it.
	Code int
	// Signal is what has ended it, or 0.
	Signal syscall.Signal `json:",omitempty"`
	// Killed says why the watchdog has killed it; "" if it has not.
	Killed string `json:",omitempty"`
	// Failed says why it could not be started. Code is 126 then, as with a shell.
	Failed string `json:",omitempty"`
	// Late says that it failed as Spec.Until had passed before it could begin. A later time may do.
	Late bool `json:",omitempty"`
	// Left says that some of what it has started may live on: the watchdog was killed, and this process
	// is not the one to which the kernel gives what that leaves behind (Adopt).
	Left bool `json:",omitempty"`
}

// Why a watchdog kills.
const (
	KilledLate    = "its time was over"
	KilledOrphan  = "it was told to, or whoever started it is gone"
	KilledNoWatch = "its watchdog was killed"
)

// report is a line that the watchdog writes to whoever has started it.
type report struct {
	Started int     `json:",omitempty"` // process id
	Ended   *Result `json:",omitempty"`
}

// The watchdog's files beside the standard ones.
const (
	ordersFD  = 3 // instants, a line each; its end is an order to kill
	reportsFD = 4
	holdFD    = 5
)

// discard closes what is of no use any more. That it fails changes nothing.
func discard(files ...io.Closer) {
	for _, f := range files {
		_ = f.Close()
	}
}
