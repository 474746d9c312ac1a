// Package process runs child processes that tests start, freeze, kill and start again.
//
// Each child leads a process group, which is signalled, and ended, as a whole. On Linux the kernel kills
// the child if this process dies first, however it dies.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// ErrNotRunning is wrapped by the errors of calls that need a running child.
var ErrNotRunning = errors.New("process is not running")

// Spec says how to run a child process.
type Spec struct {
	Name    string // for messages
	Path    string // the program
	Args    []string
	Env     []string // in addition to this process's environment
	Dir     string   // working folder
	Netns   string   // network namespace, "" for this process's own
	User    string   // the user it runs as, "" for this process's own; another user needs root
	LogPath string   // output is appended here
	Log     io.Writer
}

// Process is a child process that can be started again after it has ended. Its methods may be called from
// any goroutine.
type Process struct {
	Spec Spec // must not change while it runs

	mu     sync.Mutex
	cmd    *exec.Cmd     // latest run, nil before the first
	done   chan struct{} // closed when the latest run has been reaped, and before the first run
	result error         // of the latest run, set before done is closed
	paused bool
}

// New makes a process without starting it.
func New(spec Spec) *Process {
	done := make(chan struct{})
	close(done)
	return &Process{Spec: spec, done: done}
}

// Start runs the program and returns once it has been started; it does not wait until a server is ready. It
// is an error if the program is already running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return fmt.Errorf("process: %s is already running (pid %d)", p.Spec.Name, p.cmd.Process.Pid)
	}
	log, err := os.OpenFile(p.Spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("process: %s: %w", p.Spec.Name, err)
	}
	argv := append([]string{p.Spec.Path}, p.Spec.Args...)
	env := append(os.Environ(), p.Spec.Env...)
	if p.Spec.Netns != "" {
		// ip becomes the program, with the same process ID. The namespace has no web proxy.
		argv = append([]string{"ip", "netns", "exec", p.Spec.Netns}, argv...)
		env = append(env, "NO_PROXY=*", "no_proxy=*")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.Spec.Dir
	cmd.Env = env
	if cmd.SysProcAttr, err = childAttr(p.Spec.User); err != nil {
		_ = log.Close()
		return fmt.Errorf("process: %s: %w", p.Spec.Name, err)
	}
	cmd.WaitDelay = 5 * time.Second
	var out io.Writer = log
	if p.Spec.Log != nil {
		out = io.MultiWriter(log, p.Spec.Log)
	}
	cmd.Stdout, cmd.Stderr = out, out

	started := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		// The kernel delivers the parent-death signal when the THREAD that forked the child ends, not the
		// process. Locking this goroutine to the thread until the child has been reaped keeps the thread
		// alive as long as the child needs it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			close(done)
			_ = log.Close()
			return
		}
		err = cmd.Wait()
		// This also kills all processes that the program left in its process group.
		_ = killGroup(cmd.Process)
		_ = log.Close()
		p.mu.Lock()
		p.result = err
		p.paused = false
		p.mu.Unlock()
		close(done)
	}()
	if err := <-started; err != nil {
		<-done
		return fmt.Errorf("process: start %s: %w", p.Spec.Name, err)
	}
	p.cmd, p.done, p.result, p.paused = cmd, done, nil, false
	return nil
}

// Run starts a program and blocks until it has ended. It returns an error if the program fails.
func Run(spec Spec) error {
	p := New(spec)
	if err := p.Start(); err != nil {
		return err
	}
	<-p.Exited()
	if p.result == nil { // set before the channel was closed
		return nil
	}
	return p.ExitError()
}

// runningLocked reports whether there is an unreaped child. The caller holds mu.
func (p *Process) runningLocked() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Running reports whether there is a child, paused or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}

// Paused reports whether the child is frozen by Pause.
func (p *Process) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked() && p.paused
}

// PID returns the process ID of the running child, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Exited returns a channel that is closed when the latest run has been reaped. Before the first run it is
// already closed.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// ExitError describes how the latest run ended, with the end of its log.
func (p *Process) ExitError() error {
	p.mu.Lock()
	result := p.result
	p.mu.Unlock()
	how := "exit status 0"
	if result != nil {
		how = result.Error()
	}
	return fmt.Errorf("%w: %s ended (%s); its log ends with:\n%s",
		ErrNotRunning, p.Spec.Name, how, p.LogTail(4096))
}

// Kill sends SIGKILL to the process group and waits until the child has been reaped. It does nothing if the
// process is not running.
func (p *Process) Kill() error {
	p.mu.Lock()
	if !p.runningLocked() {
		p.mu.Unlock()
		return nil
	}
	err := killGroup(p.cmd.Process)
	done := p.done
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("process: kill %s: %w", p.Spec.Name, err)
	}
	<-done
	return nil
}

// Stop asks the process to end, waits up to grace, and then kills it. A paused process is resumed first,
// since it could not handle the signal.
func (p *Process) Stop(grace time.Duration) error { return p.end(terminateGroup, grace) }

// Quit is Stop with SIGQUIT, on which some programs end at once but still clean up.
func (p *Process) Quit(grace time.Duration) error { return p.end(quitGroup, grace) }

func (p *Process) end(signal func(*os.Process) error, grace time.Duration) error {
	p.mu.Lock()
	if !p.runningLocked() {
		p.mu.Unlock()
		return nil
	}
	done := p.done
	err := signal(p.cmd.Process)
	if p.paused {
		err = errors.Join(err, resumeGroup(p.cmd.Process))
		p.paused = false
	}
	p.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("process: stop %s: %w", p.Spec.Name, err), p.Kill())
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Pause freezes the process: its connections stay open and nobody answers.
func (p *Process) Pause() error { return p.freeze(pauseGroup, true) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.freeze(resumeGroup, false) }

func (p *Process) freeze(signal func(*os.Process) error, paused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return fmt.Errorf("%w: %s", ErrNotRunning, p.Spec.Name)
	}
	if err := signal(p.cmd.Process); err != nil {
		return fmt.Errorf("process: signal %s: %w", p.Spec.Name, err)
	}
	p.paused = paused
	return nil
}

// LogTail returns up to n bytes from the end of the log, or "" if there is none.
func (p *Process) LogTail(n int64) string {
	f, err := os.Open(p.Spec.LogPath)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	tail, _ := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-n), n)) // as much as can be read
	return string(tail)
}

// Ended reports whether a process has ended, reaped or not. It works on Linux only.
func Ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}
