package watchdog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, though its file may have been replaced or removed.
func self() (string, error) { return "/proc/self/exe", nil }

// clock goes on while the machine sleeps.
const clock = unix.CLOCK_BOOTTIME

// commandAttr gives the command a process group of its own, and has the kernel kill it when the thread
// ends that starts it.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt has processes that lose their parent become children of this one, if it is an ancestor.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// killChildren kills all children of this process. All are the command's: it has started no other.
func killChildren() {
	for _, pid := range children() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children are those of this process, those included that have ended and were not waited for.
func children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	parent := strconv.AppendInt(nil, int64(os.Getpid()), 10)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …", and a name may have anything in it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || !bytes.Equal(fields[1], parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
