package servertest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// Program describes a server of a kind that this package does not know.
type Program struct {
	Name string // for messages and the folder
	Path string // of the executable
	User string // the user it runs as, "" for this process's own
	Dir  string // where its folder is made, "" for the system's temporary folder

	// Args returns the command line.
	Args func(s *Server) []string

	// Prepare is called before each start. It makes the data folder if there is none.
	Prepare func(s *Server) error

	// Probe returns nil if the server serves clients now.
	Probe func(s *Server, timeout time.Duration) error

	// Quit makes Kill, and everything else that kills, use SIGQUIT, for a program that leaves something
	// behind after SIGKILL.
	Quit bool
}

// StartProgram starts a server with one port and blocks until it serves. The caller closes it.
func StartProgram(p Program) (*Server, error) {
	ports, err := loopback.Ports(1)
	if err != nil {
		return nil, err
	}
	s, err := newServer(p.Name, process.Spec{Name: p.Name, Path: p.Path, User: p.User, Dir: p.Dir}, networktest.Local, ports)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	s.proc.Spec.Args = p.Args(s)
	s.prepare = func() error { return p.Prepare(s) }
	s.probe = func(timeout time.Duration) error { return p.Probe(s, timeout) }
	if p.Quit {
		s.end = func() error { return s.proc.Quit(stopGrace) }
	}
	if err := process.Give(s.dir, p.User); err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), s.Close())
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// FindProgram finds a program in the folders, preferring the last match of a pattern, and then in PATH. If
// there is none, the error names the packages to install.
func FindProgram(name, packages string, folders ...string) (string, error) {
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(folder, name)) // the patterns are good
		for i := len(found) - 1; i >= 0; i-- {
			if path, err := exec.LookPath(found[i]); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("servertest: %w: no %s; run 'make setup-all', or install the package '%s'", ErrNotInstalled, name, packages)
	}
	return path, nil
}
