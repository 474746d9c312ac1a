//go:build unix && !linux

package watchdog

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self returns the path of this program.
func self() (string, error) { return os.Executable() }

const clock = unix.CLOCK_MONOTONIC

// commandAttr gives the command a process group of its own. There is no parent-death signal here.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: processes that leave the command's group are not found here.
func adopt() error { return nil }

func killChildren() error { return nil }

func children() ([]int, error) { return nil, nil }
