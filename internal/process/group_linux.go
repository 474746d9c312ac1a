package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/elector-go/elector/internal/wait"
)

// childAttr gives the child its own process group, and makes the kernel kill it when the thread that
// started it ends (see Process.Start for that thread).
func childAttr(user string) (*syscall.SysProcAttr, error) {
	rights, err := credential(user)
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: rights}, err
}

// waitStopped blocks until a process that was sent SIGSTOP has no running thread, or has ended. One thread
// takes the signal, and while that thread waits for a processor the others continue: they may still answer
// a request.
func waitStopped(pid int) error {
	deadline := time.Now().Add(wait.Patience)
	for moving(pid) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d still runs after SIGSTOP", pid)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// moving reports whether a thread of the process runs, or waits for something that a signal interrupts. A
// thread that waits for something else, such as a disk or the exec of a child, stops before it is back in
// the program. (waitid would wait for it, and never return if the child was stopped before its exec.)
func moving(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is good
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
		if bytes.HasPrefix(state, []byte("R")) || bytes.HasPrefix(state, []byte("S")) {
			return true
		}
	}
	return false
}
