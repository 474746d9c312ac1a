//go:build unix

package watchdog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/lastwill"
)

// look is how often a watchdog compares the clock with the instant at which it must kill. A timer of Go's
// runtime does not count the time in which the machine sleeps, and this clock does.
const look = 100 * time.Millisecond

// Main is the watchdog's process. Its arguments are the command's program and arguments. It returns an exit
// code, which nobody uses.
//
// It ignores all signals that can be caught: those of a terminal, or of a service manager that signals
// everything, are for the command and the process that started this.
func Main(args []string) int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	runtime.LockOSThread() // for good: the kernel kills the command when the thread that started it ends
	orders, reports := os.NewFile(ordersFD, "orders"), os.NewFile(reportsFD, "reports")
	if len(args) == 0 || orders == nil || reports == nil {
		fmt.Fprintln(os.Stderr, "elector: this is for elector run to call")
		return 2
	}
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
	syscall.CloseOnExec(holdFD)
	w := &watchdog{reports: json.NewEncoder(reports)}
	err := w.run(args, bufio.NewReader(orders))
	// Nothing of the command is left. If the process that started this is dead, another may lead now.
	released := lastwill.Done(os.NewFile(holdFD, "hold"))
	if err != nil {
		w.tell(report{Ended: &Result{Code: 126, Failed: err.Error(), Late: errors.Is(err, errLate)}})
	}
	if released != nil {
		asynclog.Print(os.Stderr, asynclog.AtExit, fmt.Sprintf("elector: the session times out, should elector run be dead: %v\n", released))
	}
	if err != nil {
		return 1
	}
	return 0
}

var errLate = errors.New("it is too late to begin")

type watchdog struct {
	reports *json.Encoder
	until   atomic.Int64           // when to kill, by the clock of now
	group   int                    // of the command
	killed  atomic.Pointer[string] // why, once it was done
}

// tell sends a report to the process that started this, which may be gone.
func (w *watchdog) tell(r report) { _ = w.reports.Encode(r) }

// run runs the command, and returns when nothing of it is left. An error says that it was not started.
func (w *watchdog) run(args []string, orders *bufio.Reader) error {
	if err := adopt(); err != nil {
		return err
	}
	if err := w.heed(orders); err != nil {
		return fmt.Errorf("nobody says until when it may run: %w", err)
	}
	if w.left() <= 0 {
		return errLate
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = commandAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	w.group = cmd.Process.Pid
	go func() {
		for w.heed(orders) == nil {
		}
		w.kill(KilledOrphan)
	}()
	go func() {
		for left := w.left(); left > 0; left = w.left() {
			time.Sleep(min(left, look))
		}
		w.kill(KilledLate)
	}()
	w.tell(report{Started: w.group})
	status := w.reap()
	ended := Result{Code: status.ExitStatus()}
	if status.Signaled() {
		ended.Signal = status.Signal()
		ended.Code = 128 + int(ended.Signal)
	}
	if why := w.killed.Load(); why != nil {
		ended.Killed = *why
	}
	w.tell(report{Ended: &ended})
	return nil
}

// heed waits for the next instant to kill at.
func (w *watchdog) heed(orders *bufio.Reader) error {
	line, err := orders.ReadString('\n')
	if err != nil {
		return err
	}
	until, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil {
		return err
	}
	w.until.Store(until)
	return nil
}

// left returns how long the command may run.
func (w *watchdog) left() time.Duration { return time.Duration(w.until.Load() - now()) }

// kill kills everything, and keeps the first reason that it is given.
func (w *watchdog) kill(why string) {
	w.killed.CompareAndSwap(nil, &why)
	_ = syscall.Kill(-w.group, syscall.SIGKILL) // an error says that none is left, or that it may not
	_ = killChildren()                          // reap tries again
}

// reap waits until the command is gone, kills what it leaves, and waits until that is gone. It returns how
// the command has ended.
func (w *watchdog) reap() (status syscall.WaitStatus) {
	for gone, options := false, 0; ; {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &s, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // there is no child any more
			return status
		case pid == 0: // all that have ended are counted
			options = 0
			if (gone || w.killed.Load() != nil) && killChildren() != nil { // those that they have left
				options = syscall.WNOHANG
				time.Sleep(5 * time.Millisecond)
			}
		default: // others may have ended too: one look for children serves all, as it takes long
			options = syscall.WNOHANG
			if pid == w.group {
				status, gone = s, true
				_ = syscall.Kill(-w.group, syscall.SIGKILL)
			}
		}
	}
}
