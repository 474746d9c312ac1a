package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// A child is one process of a candidate, from its start to its end.
type child struct {
	name string // the candidate's ID and the number of its process: "2.1"
	cmd  *exec.Cmd
	runs bool // it is an elector run

	stdin   io.Writer      // takes durations, one per line, by which to step its clock
	stepped chan time.Time // its clock after a step
	ahead   time.Duration  // how far its clock was stepped; used by the fault that has it

	clock  history.Clock
	exited chan struct{} // closed when it is gone and all its output was read
	stderr string        // file for its standard error and its companion's

	mu        sync.Mutex
	leads     uint64      // token; 0 if it does not lead
	worked    int64       // when it last reported a commit
	failure   string      // why it gave up
	losses    []loss      // of sessions
	companion *os.Process // nil if it has none at the moment, or uses the agent
	ended     bool        // by us
}

// environment is the variable that makes a process a candidate.
const environment = "ELECTOR_CHAOS_CANDIDATE"

// launch starts the next process of a candidate, or of the agent.
func (c *campaign) launch(of **child, o candidateOptions) error {
	o.Log = filepath.Join(c.dir, logFile)
	started, err := startChild(c.clock, c.program, o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*of = started
	c.children = append(c.children, started)
	return nil
}

// startChild starts a candidate: this program, or another build of it, with environment set.
func startChild(clock history.Clock, program string, o candidateOptions) (*child, error) {
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	options, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	candidate := exec.Command(program)
	if o.Elector != "" {
		candidate = electorRun(o, program)
	}
	c := &child{name: o.Name, cmd: candidate, runs: o.Elector != "", clock: clock, exited: make(chan struct{}), stepped: make(chan time.Time, 1),
		stderr: filepath.Join(filepath.Dir(o.Log), "said-by-"+o.Name+".log")}
	stderr, err := os.Create(c.stderr) // not a pipe, which a companion would keep open
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	c.cmd.Env = append(os.Environ(), environment+"="+string(options))
	c.cmd.SysProcAttr = childAttr()
	c.cmd.Stderr = stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// Keep the thread that has started the child: its end kills the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.listen(stdout)
		_ = c.cmd.Wait() // failure, or the process that ended it, tells how it ended
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start candidate %s: %w", o.Name, err)
	}
	return c, nil
}

// Words that a candidate prints on its standard output, one per line.
const (
	saysLeads  = "leads"  // and the token
	saysOver   = "over"   // the term with that token
	saysWorks  = "works"  // a commit was done; not every commit is reported
	saysFailed = "failed" // and why it gave up
	saysClock  = "clock"  // it was stepped, and its time in seconds
	saysEnds   = "ends"   // its companion process, which ends its sessions when it dies; 0 if there is none
	saysLost   = "lost"   // a session that it has not closed, and how long it would still have trusted it
)

func (c *child) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		c.mu.Lock()
		switch word {
		case saysLeads:
			c.leads, _ = strconv.ParseUint(rest, 10, 64)
		case saysOver:
			c.leads = 0
		case saysWorks:
			c.worked = c.clock.Now()
		case saysFailed:
			c.failure = rest
		case saysEnds:
			c.setCompanion(rest)
		case saysLost:
			early, session, _ := strings.Cut(rest, " ")
			left, _ := time.ParseDuration(early)
			c.losses = append(c.losses, loss{c.name, session, left})
		case saysClock:
			seconds, _ := strconv.ParseInt(rest, 10, 64)
			c.stepped <- time.Unix(seconds, 0)
		}
		c.mu.Unlock()
	}
}

// token returns the token of its term, as last reported, or 0 if it does not lead.
func (c *child) token() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leads
}

// workedAt returns when it last reported a commit.
func (c *child) workedAt() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worked
}

// complaint describes a candidate that ended without our doing, or returns "".
func (c *child) complaint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != "" {
		return fmt.Sprintf("candidate %s gave up: %s", c.name, c.failure)
	}
	select {
	case <-c.exited:
		if !c.ended {
			return fmt.Sprintf("candidate %s ended by itself: %v; it said:\n%s", c.name, c.cmd.ProcessState, c.said())
		}
	default:
	}
	return ""
}

// said returns what the process and its companion have written to standard error.
func (c *child) said() []byte {
	text, err := os.ReadFile(c.stderr)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// kill ends the process without notice. The process may be stopped.
func (c *child) kill() error {
	if err := c.hit(); err != nil {
		return err
	}
	<-c.exited
	return nil
}

// hit is kill without waiting.
func (c *child) hit() error {
	c.expectEnd()
	if err := unlessDone(c.cmd.Process.Kill()); err != nil {
		return fmt.Errorf("kill candidate %s: %w", c.name, err)
	}
	return nil
}

// pause stops the process, and resume continues it. They ignore a process that has ended.
func (c *child) pause() error  { return unlessDone(pauseProcess(c.cmd.Process)) }
func (c *child) resume() error { return unlessDone(resumeProcess(c.cmd.Process)) }

func unlessDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stepClock steps the wall clock of the process and checks that it did.
func (c *child) stepClock(by time.Duration) error {
	was := time.Now().Add(c.ahead)
	if _, err := fmt.Fprintln(c.stdin, by); err != nil {
		return fmt.Errorf("step the clock of candidate %s: %w", c.name, err)
	}
	select {
	case shows := <-c.stepped:
		if off := shows.Sub(was.Add(by)); off.Abs() > stepBy/2 {
			return fmt.Errorf("the clock of candidate %s was to be stepped by %v and is %v off", c.name, by, off)
		}
		c.ahead += by
		return nil
	case <-c.exited:
		return nil // it gave up and reported that
	}
}

// leave asks the process to end, without haste.
func (c *child) leave(patience time.Duration) error {
	c.expectEnd()
	if err := unlessDone(c.cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("end candidate %s: %w", c.name, err)
	}
	var late error
	select {
	case <-c.exited:
	case <-time.After(patience):
		late = fmt.Errorf("candidate %s did not end in %v", c.name, patience)
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // makes it print where it hangs
		<-c.exited
	}
	// An elector run has its command's exit code, or a code that says that it was interrupted.
	if late == nil && !c.cmd.ProcessState.Success() && !(c.runs && c.cmd.ProcessState.ExitCode() > 128) {
		late = fmt.Errorf("candidate %s ended with %v", c.name, c.cmd.ProcessState)
	}
	if late != nil {
		return fmt.Errorf("%w; it said:\n%s", late, c.said())
	}
	return nil
}

// expectEnd is called before we end the process. It has no effect if the process has already ended.
func (c *child) expectEnd() {
	select {
	case <-c.exited:
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = true
	}
}
