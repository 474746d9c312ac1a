//go:build !unix

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func childAttr(user string) (*syscall.SysProcAttr, error) {
	if user != "" {
		return nil, fmt.Errorf("run as %s: %w", user, errors.ErrUnsupported)
	}
	return nil, nil
}

// Give makes a user the owner of a file or folder. It works on Unix only.
func Give(path, user string) error {
	return fmt.Errorf("give %s to %s: %w", path, user, errors.ErrUnsupported)
}

func quitGroup(p *os.Process) error { return killGroup(p) }

func killGroup(p *os.Process) error {
	err := p.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Without signals no process can be asked to end.
func terminateGroup(p *os.Process) error { return killGroup(p) }

func pauseGroup(*os.Process) error  { return errors.ErrUnsupported }
func resumeGroup(*os.Process) error { return errors.ErrUnsupported }
