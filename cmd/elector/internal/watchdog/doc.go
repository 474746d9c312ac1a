// Package watchdog runs a command, with all the processes that it starts, until an instant that may be moved,
// and no longer: a process of its own, the watchdog, kills them at that instant. It kills them at once when
// the process that started it is gone. So if that one is frozen or killed, the command ends.
//
// The watchdog is this same program, started with the argument Word. It is the parent of the command, which
// leads a process group of its own. On Linux the watchdog also adopts what the command's processes leave
// behind, including other groups and sessions, and the kernel kills the command if the watchdog itself is
// killed.
package watchdog

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Word is the first argument of a watchdog process: it calls Main with the others.
const Word = "run-watchdog"

// ErrUnsupported is the error of Start where it is not Supported, as on Windows.
var ErrUnsupported = errors.New("this takes Unix: process groups, and a clock that processes share")

// Spec is the command to run.
type Spec struct {
	// Path is the program, and Args its arguments, without its name.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	// Stdin, Stdout and Stderr are the command's own; nil is the null device.
	Stdin, Stdout, Stderr *os.File
	// Until is when everything is killed, unless Command.Until moves that.
	Until time.Time
	// Hold is for the watchdog: it says lastwill.Done to it once nothing of the command is left, or if the
	// command was not started. The command does not get it. nil: nobody waits for that.
	Hold *os.File
}

// A Result is how a command has ended.
type Result struct {
	// Code is the exit code, or 128 and the signal's number if a signal has ended it.
	Code int
	// Signal is the signal that has ended it, or 0.
	Signal syscall.Signal `json:",omitempty"`
	// Killed is why the watchdog has killed it; "" if it has not.
	Killed string `json:",omitempty"`
	// Failed is why it could not be started. Code is 126 then, as with a shell.
	Failed string `json:",omitempty"`
	// Late is whether it failed because Spec.Until had passed before it could begin. A later time may do.
	Late bool `json:",omitempty"`
	// Left is whether some of what it has started may still run: the watchdog was killed, and this process
	// does not adopt what that leaves behind (Adopt).
	Left bool `json:",omitempty"`
}

// Why a watchdog kills.
const (
	KilledLate    = "its time was over"
	KilledOrphan  = "it was told to, or the process that started it is gone"
	KilledNoWatch = "its watchdog was killed"
)

// report is a line from the watchdog to the process that started it.
type report struct {
	Started int     `json:",omitempty"` // process id
	Ended   *Result `json:",omitempty"`
}

// The watchdog's files besides the standard ones.
const (
	ordersFD  = 3 // instants, a line each; its end is an order to kill
	reportsFD = 4
	holdFD    = 5
)

// discard closes files that are no longer used. An error changes nothing.
func discard(files ...io.Closer) {
	for _, f := range files {
		_ = f.Close()
	}
}
