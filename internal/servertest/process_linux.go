package servertest

import "syscall"

// childAttr gives the child its own process group, and has the kernel kill it
// when the thread that started it ends (see process.start for that thread).
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
