package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/internal/program"
)

// network is the network of lastwill.Serve.
const network = "unixpacket"

// patience is for other agents that begin at the same time.
const patience = 5 * time.Second

// Listen creates a socket with these permissions. It removes a socket that a dead agent has left at the path.
// A socket with a live listener is an error, and so is a file that is not a socket. The caller closes the
// listener, which removes the socket.
func Listen(ctx context.Context, path string, mode fs.FileMode) (*net.UnixListener, error) {
	unlock, err := lock(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	var failed error
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// After bind it has at most these: nobody else can connect before Chmod.
		return errors.Join(c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode)) }), failed)
	}}
	l, err := config.Listen(ctx, network, path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil { // the umask may have removed some
		return nil, errors.Join(err, l.Close())
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes the socket of a dead agent. Nobody else may do so meanwhile: it could be the socket of
// an agent that has just begun.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, path)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was written
		return fmt.Errorf("an agent serves at %s already", path)
	case !errors.Is(err, syscall.ECONNREFUSED): // somebody may be alive who listens in another way
		return fmt.Errorf("is there an agent already? %w", err)
	}
	return os.Remove(path)
}

// lock keeps other agents from a folder.
func lock(ctx context.Context, folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // unlocks; nothing was written
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			_ = f.Close() // nothing was written
			return nil, fmt.Errorf("lock %s: %w", folder, err)
		}
		if err := program.Sleep(ctx, 20*time.Millisecond); err != nil {
			_ = f.Close() // nothing was written
			return nil, err
		}
	}
}
