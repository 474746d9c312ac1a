// Package commandtest runs the command in processes of its own. They are the test binary: see Main.
package commandtest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/internal/wait"
)

const beElector = "ELECTOR_TEST_MAIN"

// Env returns the environment that turns the test binary into the command.
func Env() []string { return append(os.Environ(), beElector+"=1") }

// Main runs the command if this process is one, or its watchdog. Otherwise it returns. TestMain calls it first.
func Main(command func() int) {
	if os.Getenv(beElector) != "" || len(os.Args) > 1 && os.Args[1] == watchdog.Word {
		os.Exit(command())
	}
}

// A Process is the command, or a program that runs it.
type Process struct {
	Cmd    *exec.Cmd
	Log    wait.Log // its standard error, unless Cmd has another
	Exited chan struct{}
	t      testing.TB
}

// Start starts the command.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	p := New(t, os.Args[0], args...)
	p.Begin()
	return p
}

// New returns a program that Begin starts.
func New(t testing.TB, program string, args ...string) *Process {
	return &Process{Cmd: exec.Command(program, args...), Exited: make(chan struct{}), t: t}
}

// Begin starts Cmd. The process does not outlive the test.
func (p *Process) Begin() {
	p.t.Helper()
	p.Cmd.Env = Env()
	if p.Cmd.Stderr == nil {
		p.Cmd.Stderr = &p.Log
	}
	p.Cmd.WaitDelay = wait.Patience
	require.NoError(p.t, p.Cmd.Start())
	go func() {
		defer close(p.Exited)
		_ = p.Cmd.Wait() // the exit code tells
	}()
	p.t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Exited
		if p.t.Failed() {
			p.t.Logf("%s:\n%s", p.Cmd, p.Log.String())
		}
	})
}

// Signal signals the process, unless it has ended.
func (p *Process) Signal(s syscall.Signal) { _ = p.Cmd.Process.Signal(s) }

// Insist signals the process until it ends: a signal soon after the first one counts as the same.
func (p *Process) Insist(s syscall.Signal) {
	p.t.Helper()
	wait.For(p.t, "it ends", func() bool {
		p.Signal(s)
		select {
		case <-p.Exited:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
}

// Exit waits for the process to end.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.Exited:
	case <-time.After(wait.Patience):
		p.t.Fatalf("it does not end:\n%s", p.Log.String())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Says waits until the process has logged a text.
func (p *Process) Says(text string) {
	p.t.Helper()
	wait.For(p.t, text, func() bool { return strings.Contains(p.Log.String(), text) })
}
