package servertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// SQLConfig configures a server of a SQL database. The zero value is ready to use.
type SQLConfig struct {
	// Sync makes the server write each transaction to the disk before it answers. By default it does
	// not, and keeps its files in memory, where there is room: a killed process loses nothing by that.
	Sync bool

	// Dir is an existing folder in which the server makes a new folder for its files. Where this
	// process is root, others must be able to enter it.
	Dir string

	// Args are put after this package's own flags.
	Args []string

	// Log receives a copy of the server's output, which always goes to a file in the server's
	// folder. The writer must not block.
	Log io.Writer
}

func (c SQLConfig) withDefaults() SQLConfig {
	if c.Dir == "" && !c.Sync {
		c.Dir = memory()
	}
	return c
}

// newSQL prepares a server of a SQL database without starting it, with one port, and a folder that
// the server may write to. Its user, "" for this process's own, is in proc.Spec.
func newSQL(kind, name, path string, cfg SQLConfig) (*server, error) {
	sites, err := (*networktest.Network)(nil).Take(1)
	if err != nil {
		return nil, err
	}
	ports, err := loopback.Ports(1)
	if err != nil {
		return nil, err
	}
	spec := process.Spec{Name: name, Path: path, User: plainUser(), Dir: cfg.Dir, Log: cfg.Log}
	s, err := newServer(kind, spec, sites[0], ports)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	if err := process.Give(s.dir, spec.User); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("servertest: %w", err)
	}
	return s, nil
}

// plainUser is whose rights a server has that refuses those of root: none but this process's own if
// that is not root. Which user makes no difference, as long as there is one by that name.
func plainUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	if _, err := user.Lookup("postgres"); err == nil {
		return "postgres"
	}
	return "nobody"
}

// program finds a program in the folders, the last match of a pattern first, and then in PATH.
func program(name, packages string, folders ...string) (string, error) {
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

// exchange sends a greeting to a server, if there is one, and reads the first n bytes of the answer.
func exchange(addr string, timeout time.Duration, greeting []byte, n int) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(greeting); err != nil {
		return nil, err
	}
	answer := make([]byte, n)
	_, err = io.ReadFull(conn, answer)
	return answer, err
}
