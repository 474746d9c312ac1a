package lastwill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/companion"
)

const (
	firstPause = 100 * time.Millisecond // between a companion and the next; it doubles
	lastPause  = 30 * time.Second
	tries      = 5 // for a program that has not reached Start in its companion
)

// errMain is the likely reason why a companion never says anything.
var errMain = errors.New("the companion, which is this program executed again, has not reached Start: " +
	"call it at the top of main, with any arguments, and wait for nothing before it")

// accompany starts the goroutine that keeps a companion running. The error is errors.ErrUnsupported if
// there can be none.
func (b *Backend) accompany(o Options) error {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w (it takes Linux 5.3 or later, and a sandbox that allows it): %w", err, errors.ErrUnsupported)
	}
	self := os.NewFile(uintptr(pidfd), "pidfd")
	gate, err := gateOf(self, o.Agent)
	if err != nil {
		_ = self.Close() // nothing was written
		return err
	}
	b.hold = gate.hold
	ctx, stop := context.WithCancel(context.Background())
	b.stop = sync.OnceFunc(func() {
		b.mu.Lock()
		b.prune(len(b.wills))
		if b.left = len(b.wills) > 0; !b.left {
			b.send(message{Kind: kindBye})
		}
		b.mu.Unlock()
		stop()
	})
	go b.keep(ctx, &keeper{Backend: b, self: self, gate: gate, agent: o.Agent, client: rand.Text(), args: arguments(), env: append(os.Environ(), companion.Marker+"=3")})
	return nil
}

// gateOf makes the gate of this process, once it is certain that there can be a companion.
func gateOf(self *os.File, agent string) (*gate, error) {
	pid, _, err := pidfdOf(self)
	switch {
	case errors.Is(err, unix.EMFILE):
		return nil, err
	case err != nil || pid != os.Getpid():
		return nil, fmt.Errorf("/proc is not there, or of another process namespace (%d, %v): %w", pid, err, errors.ErrUnsupported)
	case agent == "" && pid == 1:
		return nil, fmt.Errorf("this is process 1 of its container, with which the companion would die: use an agent of the host (Options.Agent), "+
			"or share the process namespace of the pod: %w", errors.ErrUnsupported)
	}
	g, err := newGate()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return g, nil
}

// keeper keeps a companion running.
type keeper struct {
	*Backend
	self   *os.File // pidfd
	gate   *gate
	agent  string // path; "" if the companion is a process of its own
	client string // known to nobody else
	args   []string
	env    []string // as at Start, without later changes by the program
	heard  bool     // a companion has said hello at least once
	lost   bool     // there was no companion at the last look
}

func (b *Backend) keep(ctx context.Context, k *keeper) {
	defer close(b.done)
	defer closeAll([]*os.File{k.self, k.gate.file})
	tried := sync.OnceFunc(func() { close(b.tried) })
	pause, silent := firstPause, 0
	for {
		began := time.Now()
		pid, err := k.attend(ctx, tried)
		tried()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMain) && !k.heard {
			silent++
		}
		if silent == tries {
			b.log.Error("there is no companion: if this process crashes, its sessions time out", "err", err)
			b.on(Event{GivenUp, pid, err})
			<-ctx.Done()
			return
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		level := slog.LevelWarn
		if k.lost && pause == lastPause {
			level = slog.LevelDebug // it has already been logged several times
		}
		k.lost = true
		b.log.Log(ctx, level, "there is no companion: should this process crash now, its sessions time out", "pid", pid, "again", pause, "err", err)
		b.on(Event{Lost, pid, err})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// attend runs one companion until it is gone or ctx ends, and returns why it is gone. It calls told when
// the companion has received all sessions.
func (k *keeper) attend(ctx context.Context, told func()) (pid int, err error) {
	connect := k.spawn
	if k.agent != "" {
		connect = k.dial
	}
	conn, pid, end, err := connect()
	if err != nil {
		return pid, err
	}
	defer end()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := k.greet(conn); err != nil {
		return pid, err
	}
	k.heard = true
	if err := k.tellAll(conn); err != nil {
		return pid, fmt.Errorf("tell it all sessions: %w", err)
	}
	defer k.untell()
	told()
	level := slog.LevelDebug
	if k.lost {
		level = slog.LevelInfo
	}
	k.lost = false
	k.log.Log(ctx, level, "a companion is there", "pid", pid)
	k.on(Event{Kind: Ready, PID: pid})
	for {
		m, files, err := read(conn)
		closeAll(files)
		switch {
		case errors.Is(err, io.EOF):
			return pid, errors.New("it has ended")
		case errors.Is(err, net.ErrClosed): // by send
			return pid, errors.New("it does not listen")
		case err != nil:
			return pid, err
		case m.Kind == kindRefused:
			k.log.Error("the companion refuses a session", "err", m.Why)
			k.on(Event{Refused, pid, errors.New(m.Why)})
		}
	}
}

// greet says hello, and waits until the companion has verified this process.
func (k *keeper) greet(conn *net.UnixConn) error {
	err := write(conn, message{Kind: kindHello, Client: k.client}, int(k.self.Fd()), int(k.gate.file.Fd()))
	if err != nil && !errors.Is(err, unix.EPIPE) { // it may have ended, or refused this process: read returns which
		return fmt.Errorf("say hello: %w", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(greeting)); err != nil {
		return err
	}
	m, files, err := read(conn)
	closeAll(files)
	switch {
	case errors.Is(err, io.EOF) && k.agent == "":
		return fmt.Errorf("%w: it has ended", errMain)
	case errors.Is(err, os.ErrDeadlineExceeded) && k.agent == "":
		return fmt.Errorf("%w within %v", errMain, greeting)
	case err != nil:
		return fmt.Errorf("the companion does not answer: %w", err)
	case m.Kind != kindWelcome:
		return fmt.Errorf("refused: %s", m.Why)
	}
	return conn.SetReadDeadline(time.Time{})
}

// tellAll sends all sessions; after that, others are sent as they come and go. It does not block those who
// open or close a session meanwhile: it repeats until nothing is left to send.
func (k *keeper) tellAll(conn *net.UnixConn) error {
	knows := make(map[string]backend.Will)
	for {
		var news []message
		k.mu.Lock()
		for id, t := range k.wills {
			if _, known := knows[id]; !known {
				knows[id] = t.will
				news = append(news, message{Kind: kindTell, Will: &t.will})
			}
		}
		for id, w := range knows {
			if k.wills[id] == nil {
				delete(knows, id)
				news = append(news, message{Kind: kindForget, Service: w.Service, Session: w.Session})
			}
		}
		if len(news) == 0 {
			k.conn = conn
		}
		k.mu.Unlock()
		if len(news) == 0 {
			return nil
		}
		for _, m := range news {
			if err := write(conn, m); err != nil {
				return err
			}
		}
	}
}

func (k *keeper) untell() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conn = nil
}

// trusted ensures that an agent does not belong to another user who was at the path first, because it is
// sent secrets. It must belong to root, to this process's user, or to the owner of its socket's directory.
func trusted(conn *net.UnixConn, path string) error {
	peer, err := peerOf(conn)
	if err != nil {
		return err
	}
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &dir); err != nil {
		return fmt.Errorf("stat the directory of %s: %w", path, err)
	}
	if peer.Uid != 0 && peer.Uid != dir.Uid && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("the agent at %s is of user %d, and neither of root nor of this user, nor does that user own the directory: "+
			"put the socket where nobody else can", path, peer.Uid)
	}
	return nil
}

// dial connects to the agent.
func (k *keeper) dial() (*net.UnixConn, int, func(), error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: k.agent, Net: "unixpacket"})
	if err != nil {
		return nil, 0, nil, fmt.Errorf("no agent: %w", err)
	}
	if err := trusted(conn, k.agent); err != nil {
		_ = conn.Close() // nothing was written
		return nil, 0, nil, err
	}
	return conn, 0, func() { _ = conn.Close() }, nil
}

// spawn starts a companion of this process. end kills it, if it has not ended, and returns once it is
// gone: so there is never a second one, and a frozen one does not stay. end does not kill a companion that
// has sessions left after Close, nor one that it may not kill.
func (k *keeper) spawn() (conn *net.UnixConn, pid int, end func(), err error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, 0, nil, err
	}
	defer theirs.Close()
	// The running file, even if another file has its name by now.
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: k.args, Env: k.env, Dir: directory(), Stderr: os.Stderr,
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		_ = ours.Close() // nothing was written
		return nil, 0, nil, err
	}
	return ours, cmd.Process.Pid, func() {
		_ = ours.Close()
		k.mu.Lock()
		left := k.left
		k.mu.Unlock()
		wait := func() { _ = cmd.Wait() } // usually killed
		if !left {
			if err := cmd.Process.Kill(); err == nil || errors.Is(err, os.ErrProcessDone) {
				wait()
				return
			}
			// This process has become another user, and may not kill it any more.
		}
		go wait() // as long as it runs, so that it does not become a zombie
	}, nil
}

// pair returns two ends of a connection. The kernel records that this process has made it.
func pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "companion")
	if ours, err = connOf(os.NewFile(uintptr(fds[0]), "process")); err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// connOf takes over the file.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%v is no Unix socket", f.Name())
	}
	return conn, nil
}
