package servertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// stopGrace is how long a server may take to end after SIGTERM.
const stopGrace = 10 * time.Second

// ZooKeeper is one ZooKeeper server process. Its methods may be called from
// any goroutine; those that start or end the process exclude each other.
type ZooKeeper struct {
	cfg     ZooKeeperConfig
	self    peer
	peers   []peer // of the ensemble, empty for a standalone server
	dir     string // removed by Close
	dataDir string
	proc    *process

	mu     sync.Mutex // serialises changes of the process and its folder
	closed bool
}

// StartZooKeeper starts a standalone server and blocks until it serves. The
// caller closes it.
func StartZooKeeper(cfg ZooKeeperConfig) (*ZooKeeper, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	z, err := newZooKeeper(cfg.withDefaults(), peer{clientPort: ports[0]}, nil)
	if err != nil {
		ReleasePorts(ports...)
		return nil, err
	}
	if err := z.Start(); err != nil {
		return nil, errors.Join(err, z.Close())
	}
	return z, nil
}

// newZooKeeper prepares a server without starting it. On success the server
// owns self's ports. cfg has its defaults filled in.
func newZooKeeper(cfg ZooKeeperConfig, self peer, peers []peer) (*ZooKeeper, error) {
	java, err := javaPath()
	if err != nil {
		return nil, err
	}
	classPath, err := zooKeeperClassPath(zooKeeperJarDir())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cfg.Dir, "servertest-zookeeper-")
	if err != nil {
		return nil, fmt.Errorf("servertest: %w", err)
	}
	z := &ZooKeeper{cfg: cfg, self: self, peers: peers, dir: dir, dataDir: filepath.Join(dir, "data")}
	configFile, tmpDir := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "tmp")
	name := "ZooKeeper server"
	if len(peers) > 0 {
		name += " " + strconv.Itoa(self.id)
	}
	z.proc = newProcess(processSpec{
		Name:    name,
		Path:    java,
		Args:    cfg.javaArgs(classPath, tmpDir, configFile),
		Dir:     dir,
		LogPath: filepath.Join(dir, "server.log"),
		Log:     cfg.Log,
	})
	err = errors.Join(
		os.Mkdir(tmpDir, 0o755),
		z.makeData(),
		os.WriteFile(configFile, []byte(cfg.file(z.dataDir, self.clientPort, peers)), 0o644),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), os.RemoveAll(dir))
	}
	return z, nil
}

// makeData makes an empty data folder that holds only myid.
func (z *ZooKeeper) makeData() error {
	if err := os.Mkdir(z.dataDir, 0o755); err != nil {
		return err
	}
	if len(z.peers) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(z.dataDir, "myid"), []byte(strconv.Itoa(z.self.id)), 0o644)
}

// Addr returns the client address, "127.0.0.1:port". It never changes.
func (z *ZooKeeper) Addr() string { return loopback(z.self.clientPort) }

// ID returns the server's number in its ensemble, from 1, or 0 if standalone.
func (z *ZooKeeper) ID() int { return z.self.id }

// Dir returns the folder with the server's configuration, data and log.
func (z *ZooKeeper) Dir() string { return z.dir }

// Pid returns the process id, or 0 if the server is not running.
func (z *ZooKeeper) Pid() int { return z.proc.pid() }

// Running reports whether there is a process, be it serving or paused.
func (z *ZooKeeper) Running() bool { return z.proc.running() }

// Paused reports whether the process is frozen by Pause.
func (z *ZooKeeper) Paused() bool { return z.proc.isPaused() }

// LogTail returns up to n bytes from the end of the server's log.
func (z *ZooKeeper) LogTail(n int64) string { return z.proc.logTail(n) }

// Start starts the server again, on the same port and data, and blocks until
// it serves. A member of an ensemble serves only once there is a quorum: to
// start several stopped members use Launch on each and then WaitReady, or
// Ensemble.Start. It is an error if the server is running.
func (z *ZooKeeper) Start() error {
	if err := z.Launch(); err != nil {
		return err
	}
	return z.WaitReady(z.cfg.ReadyTimeout)
}

// Launch is Start without waiting: it returns once the process exists.
func (z *ZooKeeper) Launch() error {
	return z.exclusive(z.proc.start)
}

// Kill ends the server with SIGKILL and blocks until it is gone. It does
// nothing if the server is not running. Paused servers can be killed.
func (z *ZooKeeper) Kill() error {
	return z.exclusive(z.proc.kill)
}

// Stop ends the server with SIGTERM and blocks until it is gone; one that does
// not end within ten seconds is killed. A paused server is resumed for it.
func (z *ZooKeeper) Stop() error {
	return z.exclusive(func() error { return z.proc.stop(stopGrace) })
}

// Restart is Kill followed by Start.
func (z *ZooKeeper) Restart() error {
	if err := z.Kill(); err != nil {
		return err
	}
	return z.Start()
}

// Pause freezes the server with SIGSTOP: its connections stay open, the kernel
// still accepts new ones for it, and nothing is answered until Resume.
func (z *ZooKeeper) Pause() error { return z.exclusive(z.proc.pause) }

// Resume lets a paused server continue. It does not wait until it serves.
func (z *ZooKeeper) Resume() error { return z.exclusive(z.proc.resume) }

// Wipe kills the server and removes all its data, so that it has lost every
// node and session when it is started again. It keeps its place in the
// ensemble. It does not start the server.
func (z *ZooKeeper) Wipe() error {
	return z.exclusive(func() error {
		if err := z.proc.kill(); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(z.dataDir), z.makeData()); err != nil {
			return fmt.Errorf("servertest: wipe: %w", err)
		}
		return nil
	})
}

// Close kills the server, waits until it is gone, removes its folder and gives
// its ports back. Closing twice is fine.
func (z *ZooKeeper) Close() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return nil
	}
	if err := z.proc.kill(); err != nil {
		return err // still running: keep the folder and the ports
	}
	z.closed = true
	ReleasePorts(z.self.clientPort)
	if z.self.id != 0 {
		ReleasePorts(z.self.quorumPort, z.self.electPort)
	}
	return os.RemoveAll(z.dir)
}

// exclusive runs a change of the process while no other is going on.
func (z *ZooKeeper) exclusive(change func() error) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return fmt.Errorf("servertest: ZooKeeper %w", ErrClosed)
	}
	return change()
}

// WaitReady blocks until the server serves clients. It fails when the process
// ends, with the end of its log, or when the timeout has passed.
func (z *ZooKeeper) WaitReady(timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(25 * time.Millisecond)
	defer poll.Stop()
	exited := z.proc.exited()
	// A server that is just starting may accept a connection and forget about
	// it, so the first attempts are short; later ones allow for a busy machine.
	patience := 100 * time.Millisecond
	for {
		_, err := z.info(patience)
		if err == nil {
			return nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			patience = min(2*patience, wordTimeout)
		}
		select {
		case <-exited:
			return z.proc.exitError()
		case <-deadline.C:
			return fmt.Errorf("servertest: %s is not ready after %v: %w; its log ends with:\n%s",
				z.proc.spec.Name, timeout, err, z.LogTail(4096))
		case <-poll.C:
		}
	}
}
