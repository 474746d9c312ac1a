//go:build unix && !linux

package process

import "syscall"

// childAttr gives the child its own process group. There is no parent-death signal here: a test binary
// killed with SIGKILL leaves its servers running.
func childAttr(user string) (*syscall.SysProcAttr, error) {
	rights, err := credential(user)
	return &syscall.SysProcAttr{Setpgid: true, Credential: rights}, err
}

// waitStopped does nothing here: a frozen server may run for another moment.
func waitStopped(int) error { return nil }
