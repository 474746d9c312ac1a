package main

import (
	"os"
	"syscall"
)

// childAttr makes the kernel kill a child when the thread that started it ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// descendantAttr makes a process leave its group and session, or stay.
func descendantAttr(leaves bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: leaves} }

func pauseProcess(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
