package watchdog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// self returns a path of this program that is valid even if its file was replaced or removed.
func self() (string, error) { return "/proc/self/exe", nil }

// clock counts while the machine sleeps.
const clock = unix.CLOCK_BOOTTIME

// commandAttr gives the command a process group of its own, and makes the kernel kill it when the thread that
// starts it ends.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes processes that lose their parent children of this one, if it is an ancestor.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// killChildren kills all children of this process. All are the command's: it has started no other. An error
// says that it may not have found all.
func killChildren() error {
	pids, err := children()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return err
}

// children returns the children of this process, including those that have ended and were not waited for. An
// error says that there may be more: perhaps the process may open no more files.
func children() (pids []int, err error) {
	all, err := os.ReadDir("/proc")
	parent := strconv.AppendInt(nil, int64(os.Getpid()), 10)
	for _, entry := range all {
		pid, no := strconv.Atoi(entry.Name())
		if no != nil {
			continue // not a process
		}
		stat, failed := os.ReadFile("/proc/" + entry.Name() + "/stat")
		switch {
		case failed == nil:
		case errors.Is(failed, fs.ErrNotExist), errors.Is(failed, unix.ESRCH), errors.Is(failed, fs.ErrPermission):
			continue // it has ended, or is another user's that /proc does not show (hidepid)
		default:
			err = failed
			continue
		}
		// "pid (name) state parent …", and a name may have anything in it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) >= 2 && bytes.Equal(fields[1], parent) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
