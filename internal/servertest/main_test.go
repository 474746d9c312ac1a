//go:build unix

package servertest

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	os.Exit(Main(m))
}

// gone reports whether there is no such process and no such process group.
func gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH)
}
