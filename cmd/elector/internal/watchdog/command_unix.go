//go:build unix

package watchdog

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether there are watchdogs on this system.
const Supported = true

// now reads the clock that this process and its watchdog share, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(clock, &t) // fails only for bad arguments
	return t.Nano()
}

// A Command runs under a watchdog. Its methods may be called from any goroutine, and do not block.
type Command struct {
	watchdog *exec.Cmd
	started  chan int
	done     chan struct{}

	mu     sync.Mutex
	orders *os.File  // nil when it is closed
	until  time.Time // the last one sent
	clock  int64     // of the watchdog, and Go's at the same time: see read
	at     time.Time
	pid    int // of the command and its group; 0 before it has started and when it has ended
	result Result
}

// Start starts a watchdog, and makes it start the command. The caller must keep the Command until Done, and
// should call Until as time passes.
func Start(s Spec) (*Command, error) {
	program, err := self()
	if err != nil {
		return nil, err
	}
	if s.Hold == nil {
		if s.Hold, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return nil, err
		}
		defer discard(s.Hold)
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, theirReports, err := os.Pipe()
	if err != nil {
		discard(theirOrders, orders)
		return nil, err
	}
	w := exec.Command(program, append([]string{Word, s.Path}, s.Args...)...)
	w.Args[0] = os.Args[0]
	w.Env = s.Env
	if s.Stdin != nil { // a nil *os.File in an interface would not be nil
		w.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		w.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		w.Stderr = s.Stderr
	}
	w.ExtraFiles = []*os.File{theirOrders, theirReports, s.Hold}
	w.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are not for it
	c := &Command{watchdog: w, orders: orders, started: make(chan int, 1), done: make(chan struct{})}
	c.Until(s.Until)
	err = w.Start()
	discard(theirOrders, theirReports)
	if err != nil {
		discard(orders, reports)
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	go c.listen(reports)
	return c, nil
}

// listen reads the watchdog's reports, until that is gone.
func (c *Command) listen(reports *os.File) {
	defer close(c.done)
	defer discard(reports)
	in := json.NewDecoder(reports)
	var group int
	orphaned := false
	for ended := false; !ended; {
		var r report
		err := in.Decode(&r)
		c.mu.Lock()
		switch {
		case err != nil: // it was killed
			ended, orphaned = true, true
			c.result = Result{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Killed: KilledNoWatch}
			if group != 0 {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
		case r.Ended != nil:
			ended, c.result, group = true, *r.Ended, 0
		case r.Started != 0:
			c.pid, group = r.Started, r.Started
			c.started <- c.pid
		}
		if ended {
			c.pid = 0
		}
		c.mu.Unlock()
	}
	c.end()
	_ = c.watchdog.Wait() // it has reported everything
	if orphaned {
		bury(group)
		c.mu.Lock()
		c.result.Left = !adopted
		c.mu.Unlock()
	}
}

// adopted is whether this process has called Adopt. spared is the child that is no command's.
var (
	adopted bool
	spared  atomic.Int64
)

// Adopt makes this process do what a killed watchdog cannot do: on Linux it kills, too, what a command has
// started in other groups and sessions. It is for a process that starts nothing but commands, one after the
// other (but see Spare). Call it before all other children are started. It does nothing if the process has
// children already, as by a shell's exec.
func Adopt() error {
	if pids, err := children(); err != nil || len(pids) > 0 {
		return nil
	}
	adopted = true
	return adopt()
}

// Spare makes Adopt leave alone one child, which is no command's. 0 means none.
func Spare(pid int) { spared.Store(int64(pid)) }

// bury kills what a killed watchdog has left, and returns when that is gone: the command's group, and with
// Adopt all children. Only this process and the first one can be the parent of those in the group that have
// ended.
func bury(group int) {
	for left := true; left; time.Sleep(5 * time.Millisecond) {
		left = false
		if group != 0 {
			_, _ = syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
			left = syscall.Kill(-group, syscall.SIGKILL) != syscall.ESRCH
		}
		if adopted {
			pids, err := children()
			left = left || err != nil // there may be more
			for _, pid := range pids {
				if pid == int(spared.Load()) {
					continue
				}
				left = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// Started yields the process id of the command, once, when it runs; nothing if it could not be started.
func (c *Command) Started() <-chan int { return c.started }

// PID returns the process id of the command, and of its group: 0 before it has started, and when it has ended.
func (c *Command) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Until makes the watchdog kill at this instant, and no sooner. Call it often, even with the same instant:
// time in which the machine has slept since the last call counts.
func (c *Command) Until(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.read()
	}
	at := c.clock + int64(t.Sub(c.at)) // as of the last call: t may be older than a sleep, and does not include it
	c.read()
	if c.orders == nil || t.Equal(c.until) {
		return
	}
	c.until = t
	// A frozen watchdog does not read. Then the last instant that it has read still counts.
	_ = c.orders.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = fmt.Fprintf(c.orders, "%d\n", at)
}

// read reads both clocks. The watchdog's comes first: if this process is frozen between the two, an instant
// is too early.
func (c *Command) read() { c.clock, c.at = now(), time.Now() }

// Signal sends a signal to the command's process group.
func (c *Command) Signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 {
		_ = syscall.Kill(-c.pid, s) // an error says that none is left, or that it may not
	}
}

// Kill kills the command and everything it has started.
func (c *Command) Kill() {
	c.Signal(syscall.SIGKILL)
	c.end()
	_ = c.watchdog.Process.Signal(syscall.SIGCONT) // it may be frozen
}

// end tells the watchdog that nobody needs the command any more.
func (c *Command) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.orders != nil {
		discard(c.orders)
		c.orders = nil
	}
}

// Done is closed when the command and everything it has started are gone.
func (c *Command) Done() <-chan struct{} { return c.done }

// Result returns how the command has ended; zero before Done.
func (c *Command) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}
