//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential returns the credential of a user, or nil for "".
func credential(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Give makes a user the owner of a file or folder, so that this user's processes can write to it.
func Give(path, user string) error {
	c, err := credential(user)
	if err != nil || c == nil {
		return err
	}
	return os.Chown(path, int(c.Uid), int(c.Gid))
}

// The child leads its own process group, so its pid names the group.

func killGroup(p *os.Process) error      { return signalGroup(p, syscall.SIGKILL) }
func terminateGroup(p *os.Process) error { return signalGroup(p, syscall.SIGTERM) }
func quitGroup(p *os.Process) error      { return signalGroup(p, syscall.SIGQUIT) }
func resumeGroup(p *os.Process) error    { return signalGroup(p, syscall.SIGCONT) }

func pauseGroup(p *os.Process) error {
	if err := signalGroup(p, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(p.Pid)
}

// Freeze stops any process, and blocks until none of its threads runs.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(pid)
}

// Gone reports whether there is neither such a process nor such a process group.
func Gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH)
}

func signalGroup(p *os.Process, sig syscall.Signal) error {
	err := syscall.Kill(-p.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil // already gone
	}
	return err
}
