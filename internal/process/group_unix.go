//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// The child leads its own process group, so its pid names the group.

func killGroup(p *os.Process) error      { return signalGroup(p, syscall.SIGKILL) }
func terminateGroup(p *os.Process) error { return signalGroup(p, syscall.SIGTERM) }
func resumeGroup(p *os.Process) error    { return signalGroup(p, syscall.SIGCONT) }

func pauseGroup(p *os.Process) error {
	if err := signalGroup(p, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(p)
}

func signalGroup(p *os.Process, sig syscall.Signal) error {
	err := syscall.Kill(-p.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil // gone already
	}
	return err
}
