//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) error {
	err := p.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Without signals there is no polite stop.
func terminateGroup(p *os.Process) error { return killGroup(p) }

func pauseGroup(*os.Process) error  { return errors.ErrUnsupported }
func resumeGroup(*os.Process) error { return errors.ErrUnsupported }
