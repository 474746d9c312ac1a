package main

import (
	"os/exec"
	"syscall"
)

// interruptible gives the command a process group of its own. When its context ends, all processes of
// the group are interrupted: go test, the meters, and the tests' programs. Their servers are in
// other groups, and end with the programs.
func interruptible(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}

// endWithParent has the kernel kill the child when the thread ends that has started it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
