package servertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

var (
	// ErrNotInstalled is wrapped by every error that means that a server's programs are missing from this
	// machine, or could not be built. The message names what to install, or has the output of the go
	// command.
	ErrNotInstalled = errors.New("server not installed")

	// ErrClosed is returned by operations on a server after Close.
	ErrClosed = errors.New("closed")

	// ErrNotServing is returned when a process answers but does not serve clients, such as a ZooKeeper
	// server without a quorum.
	ErrNotServing = errors.New("server is not serving requests")
)

const (
	// stopGrace is how long a server may take to exit after SIGTERM.
	stopGrace = 10 * time.Second

	// answerTimeout limits one exchange with a server. A frozen server accepts the connection and never
	// answers.
	answerTimeout = 3 * time.Second
)

// Server is one server process, of any kind: [ZooKeeper], [Etcd], [Consul] and [KubeAPI] embed
// it. Its methods may be called from any goroutine; those that start or end the process exclude
// each other.
type Server struct {
	at      networktest.Site
	addr    string
	ports   []int  // released by Close
	dir     string // removed by Close
	dataDir string // removed by Wipe
	proc    *process.Process
	node    string // its name in the cluster, if members have names

	// prepare is called before each start. It makes the data folder if there is none.
	prepare func() error
	// forget asks this member to make the cluster forget another member that has lost its data, and expect
	// a new one in its place. It may be repeated after any outcome. Only members of a group have it.
	forget   func(lost *Server) error
	replaced bool // by forget, since the cluster was founded

	// probe returns nil if the server serves clients now.
	probe func(timeout time.Duration) error

	// end kills the process and blocks until it is gone.
	end func() error

	mu     sync.Mutex // serialises changes of the process and its folder
	closed bool
}

// newServer makes the server's folder, in spec.Dir, and its process without starting it. On success the
// server owns the ports; the first one is for clients. The caller sets prepare and probe.
func newServer(kind string, spec process.Spec, at networktest.Site, ports []int) (*Server, error) {
	dir, err := os.MkdirTemp(spec.Dir, "servertest-"+kind+"-")
	if err != nil {
		return nil, fmt.Errorf("servertest: %w", err)
	}
	spec.Dir, spec.LogPath, spec.Netns = dir, filepath.Join(dir, "server.log"), at.Netns
	proc := process.New(spec)
	return &Server{
		at:      at,
		addr:    at.Addr(ports[0]),
		ports:   ports,
		dir:     dir,
		dataDir: filepath.Join(dir, "data"),
		proc:    proc,
		end:     proc.Kill,
	}, nil
}

// Name returns the server's name for messages.
func (s *Server) Name() string { return s.proc.Spec.Name }

// Addr returns the client address, IP:port. Without a Network the IP is 127.0.0.1. The address never
// changes.
func (s *Server) Addr() string { return s.addr }

// Host returns the server's number in its Network, or 0 without one.
func (s *Server) Host() int { return s.at.Host }

// Dir returns the folder with the server's configuration, data and log.
func (s *Server) Dir() string { return s.dir }

// DataDir returns the folder in Dir that holds the data. Wipe removes it.
func (s *Server) DataDir() string { return s.dataDir }

// PID returns the process ID, or 0 if the server is not running.
func (s *Server) PID() int { return s.proc.PID() }

// Running reports whether there is a process, serving or paused.
func (s *Server) Running() bool { return s.proc.Running() }

// Paused reports whether the process is frozen by Pause.
func (s *Server) Paused() bool { return s.proc.Paused() }

// LogTail returns up to n bytes from the end of the server's log.
func (s *Server) LogTail(n int64) string { return s.proc.LogTail(n) }

// Start starts the server again, with the same ports and data, and blocks until it serves. It is an error
// if the server is running. A member of a cluster serves only once there is a quorum: to start several
// stopped members use the cluster's Start, or Launch on each and then WaitReady.
func (s *Server) Start() error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(wait.Patience)
}

// Launch is Start without waiting: it returns once the process exists.
func (s *Server) Launch() error {
	return s.exclusive(func() error {
		if s.proc.Running() {
			return fmt.Errorf("servertest: %s is already running (pid %d)", s.Name(), s.proc.PID())
		}
		if err := s.prepare(); err != nil {
			return fmt.Errorf("servertest: %s: %w", s.Name(), err)
		}
		return s.proc.Start()
	})
}

// Kill ends the server with SIGKILL and blocks until it is gone. It does
// nothing if the server is not running. Paused servers can be killed.
func (s *Server) Kill() error {
	return s.exclusive(s.end)
}

// Stop ends the server with SIGTERM and blocks until it is gone. It kills a server that does not exit
// within ten seconds, and resumes a paused server first.
func (s *Server) Stop() error {
	return s.exclusive(func() error { return s.proc.Stop(stopGrace) })
}

// Restart is Kill followed by Start.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.Start()
}

// Pause freezes the server with SIGSTOP: its connections stay open, the kernel still accepts new ones, and
// nothing is answered until Resume.
func (s *Server) Pause() error { return s.exclusive(s.proc.Pause) }

// Resume makes a paused server continue. It does not wait until the server serves.
func (s *Server) Resume() error { return s.exclusive(s.proc.Resume) }

// Wipe kills the server and removes all its data. The server keeps its place in the cluster. Wipe does not
// start it again.
func (s *Server) Wipe() error {
	return s.exclusive(func() error {
		if err := s.end(); err != nil {
			return err
		}
		if err := os.RemoveAll(s.dataDir); err != nil {
			return fmt.Errorf("servertest: wipe: %w", err)
		}
		return nil
	})
}

// Backup copies the data of a server that is not running to dir, which it creates.
func (s *Server) Backup(dir string) error {
	return s.exclusive(func() error {
		if s.proc.Running() {
			return fmt.Errorf("servertest: backup: %s is running", s.Name())
		}
		return os.CopyFS(dir, os.DirFS(s.dataDir))
	})
}

// Restore is Wipe, followed by copying the data from dir, where Backup has put it.
func (s *Server) Restore(dir string) error {
	if err := s.Wipe(); err != nil {
		return err
	}
	return s.exclusive(func() error { return os.CopyFS(s.dataDir, os.DirFS(dir)) })
}

// Close kills the server, waits until it is gone, removes its folder and releases its ports. It may be
// called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := s.end(); err != nil {
		return err // still running: keep the folder and the ports
	}
	s.closed = true
	loopback.Release(s.ports...)
	return os.RemoveAll(s.dir)
}

// exclusive runs a change of the process, one at a time.
func (s *Server) exclusive(change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("servertest: %s %w", s.Name(), ErrClosed)
	}
	return change()
}

// WaitReady blocks until the server serves clients. It fails when the process ends, with the end of its
// log, or when the timeout has passed.
func (s *Server) WaitReady(timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(25 * time.Millisecond)
	defer poll.Stop()
	exited := s.proc.Exited()
	// A server that is just starting may accept a connection and forget it, so the first attempts are
	// short; later ones allow for a busy machine.
	patience := 100 * time.Millisecond
	for {
		err := s.probe(patience)
		if err == nil {
			return nil
		}
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			patience = min(2*patience, answerTimeout)
		}
		select {
		case <-exited:
			return s.proc.ExitError()
		case <-deadline.C:
			return fmt.Errorf("servertest: %s is not ready after %v: %w; its log ends with:\n%s",
				s.Name(), timeout, err, s.LogTail(4096))
		case <-poll.C:
		}
	}
}
