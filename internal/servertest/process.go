package servertest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// processSpec says how to run a child process.
type processSpec struct {
	Name    string // for messages
	Path    string // the program
	Args    []string
	Env     []string // in addition to this process's environment
	Dir     string   // working folder
	Netns   string   // network namespace, "" for this process's own
	LogPath string   // output is appended here
	Log     io.Writer
}

// process is a child process that can be started again after it has ended.
// Its methods may be called from any goroutine.
type process struct {
	spec processSpec

	mu     sync.Mutex
	cmd    *exec.Cmd     // latest run, nil before the first
	done   chan struct{} // closed when the latest run has been reaped
	result error         // of the latest run, set before done is closed
	paused bool
}

func newProcess(spec processSpec) *process {
	return &process{spec: spec}
}

// start runs the program and returns once it has been started; it does not
// wait until the server is ready. It is an error if it is running already.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return fmt.Errorf("servertest: %s is already running (pid %d)", p.spec.Name, p.cmd.Process.Pid)
	}
	log, err := os.OpenFile(p.spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", p.spec.Name, err)
	}
	argv := append([]string{p.spec.Path}, p.spec.Args...)
	env := append(os.Environ(), p.spec.Env...)
	if p.spec.Netns != "" {
		// ip becomes the program, by the same process id. There is no web proxy there.
		argv = append([]string{"ip", "netns", "exec", p.spec.Netns}, argv...)
		env = append(env, "NO_PROXY=*", "no_proxy=*")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.spec.Dir
	cmd.Env = env
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = 5 * time.Second
	var out io.Writer = log
	if p.spec.Log != nil {
		out = io.MultiWriter(log, p.spec.Log)
	}
	cmd.Stdout, cmd.Stderr = out, out

	started := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		// The kernel delivers the parent-death signal when the THREAD that
		// forked the child ends, not the process. Staying locked to the
		// thread until the child has been reaped keeps it alive as long as
		// the child needs it.
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
		// Anything the program left in its process group goes with it.
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
		return fmt.Errorf("servertest: start %s: %w", p.spec.Name, err)
	}
	p.cmd, p.done, p.result, p.paused = cmd, done, nil, false
	return nil
}

// runningLocked reports whether there is an unreaped child. Caller holds mu.
func (p *process) runningLocked() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}

func (p *process) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked() && p.paused
}

// pid returns the running child's process id, or 0.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return 0
	}
	return p.cmd.Process.Pid
}

// exited returns a channel that is closed when the latest run has been reaped.
// Before the first run it is closed already.
func (p *process) exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return p.done
}

// exitError describes how the latest run ended, with the end of its log.
func (p *process) exitError() error {
	p.mu.Lock()
	result := p.result
	p.mu.Unlock()
	how := "exit status 0"
	if result != nil {
		how = result.Error()
	}
	return fmt.Errorf("%w: %s ended (%s); its log ends with:\n%s",
		ErrNotRunning, p.spec.Name, how, p.logTail(4096))
}

// kill sends SIGKILL to the process group and waits until the child has been
// reaped. It does nothing if the process is not running.
func (p *process) kill() error {
	p.mu.Lock()
	if !p.runningLocked() {
		p.mu.Unlock()
		return nil
	}
	err := killGroup(p.cmd.Process)
	done := p.done
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("servertest: kill %s: %w", p.spec.Name, err)
	}
	<-done
	return nil
}

// stop asks the process to end, waits up to grace, and then kills it. A paused
// process is resumed first, since it could not handle the signal.
func (p *process) stop(grace time.Duration) error {
	p.mu.Lock()
	if !p.runningLocked() {
		p.mu.Unlock()
		return nil
	}
	done := p.done
	err := terminateGroup(p.cmd.Process)
	if p.paused {
		err = errors.Join(err, resumeGroup(p.cmd.Process))
		p.paused = false
	}
	p.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("servertest: stop %s: %w", p.spec.Name, err), p.kill())
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

// pause freezes the process: its connections stay open and nobody answers.
func (p *process) pause() error { return p.freeze(pauseGroup, true) }

// resume undoes pause.
func (p *process) resume() error { return p.freeze(resumeGroup, false) }

func (p *process) freeze(signal func(*os.Process) error, paused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return fmt.Errorf("%w: %s", ErrNotRunning, p.spec.Name)
	}
	if err := signal(p.cmd.Process); err != nil {
		return fmt.Errorf("servertest: signal %s: %w", p.spec.Name, err)
	}
	p.paused = paused
	return nil
}

// logTail returns up to n bytes from the end of the log, "" if there is none.
func (p *process) logTail(n int64) string {
	f, err := os.Open(p.spec.LogPath)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if off := info.Size() - n; off > 0 {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return ""
		}
	}
	tail, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(tail)
}

// sharedWriter lets several processes write to one writer.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// share makes w safe for concurrent use; nil stays nil.
func share(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	if s, ok := w.(*sharedWriter); ok {
		return s
	}
	return &sharedWriter{w: w}
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
