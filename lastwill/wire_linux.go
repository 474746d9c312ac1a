package lastwill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// version is the version of the messages. Programs with another version are refused: an agent and its
// processes must be of one release.
const version = 1

const (
	kindHello   kind = "hello"   // from the process, first, with two descriptors: a pidfd of itself, and its gate
	kindWelcome kind = "welcome" // from the companion: it has verified the process. Nothing is sent before
	kindRefused kind = "refused" // from the companion: it does not accept the process, or a will
)

const (
	most     = 16 << 10         // bytes of a message
	patience = time.Second      // for the kernel to accept a message: it buffers some hundred
	greeting = 10 * time.Second // for a companion to start, and for hellos
)

func (m message) encode() ([]byte, error) {
	m.Version = version
	return json.Marshal(m)
}

func decode(packet []byte) (m message, err error) {
	if err := json.Unmarshal(packet, &m); err != nil {
		return m, fmt.Errorf("not a message: %w", err)
	}
	if m.Version != version {
		return m, fmt.Errorf("a message of version %d; this program knows version %d: run the same release on both sides", m.Version, version)
	}
	if m.Kind == kindTell && m.Will == nil || m.Kind == "" {
		return m, fmt.Errorf("a message %q without content", m.Kind)
	}
	return m, nil
}

var past = time.Unix(1, 0) // a deadline that ends a wait

var packets = sync.Pool{New: func() any { return new([most]byte) }}

// write sends a message. If a companion does not read, it fails after a second, once the kernel's buffer
// is full.
func write(conn *net.UnixConn, m message, descriptors ...int) error {
	packet, err := m.encode()
	if err != nil {
		return err
	}
	if len(packet) > most {
		return fmt.Errorf("a message of %d bytes is too long", len(packet))
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(packet, rights, nil)
	return err
}

// read waits for a message until the connection's deadline. It needs no memory while it waits. It returns
// io.EOF at the end. The caller must close the files.
func read(conn *net.UnixConn) (m message, files []*os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return m, nil, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		m, files, err = receive(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	if failed != nil {
		return m, nil, failed
	}
	return m, files, err
}

// rest returns a message that has arrived, or unix.EAGAIN if there is none. It ignores the deadline.
func rest(conn *net.UnixConn) (m message, files []*os.File, err error) {
	err = control(conn, func(fd uintptr) (err error) { m, files, err = receive(int(fd)); return err })
	return m, files, err
}

// control calls do with the descriptor of c, without waiting.
func control(c syscall.Conn, do func(fd uintptr) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = do(fd) }); failed != nil {
		return failed
	}
	return err
}

func receive(fd int) (m message, files []*os.File, err error) {
	packet := packets.Get().(*[most]byte)
	defer packets.Put(packet)
	defer clear(packet[:]) // it may contain a secret
	var control [64]byte   // a dozen descriptors at most: the kernel closes others
	const how = unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
	n, controls, flags, _, err := unix.Recvmsg(fd, packet[:], control[:], how)
	if errors.Is(err, unix.ECONNRESET) { // it died with something unread; what it sent before comes after this
		n, controls, flags, _, err = unix.Recvmsg(fd, packet[:], control[:], how)
	}
	switch {
	case errors.Is(err, unix.EINTR):
		return m, nil, unix.EAGAIN
	case err != nil:
		return m, nil, os.NewSyscallError("recvmsg", err)
	}
	files = received(control[:controls])
	switch {
	case n == 0: // no message is empty
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("a message is too long, or no descriptors are left")
	default:
		m, err = decode(packet[:n])
	}
	if err != nil {
		closeAll(files)
		return m, nil, err
	}
	return m, files, nil
}

func received(control []byte) (files []*os.File) {
	messages, _ := unix.ParseSocketControlMessage(control) // what is no message holds no descriptors
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			_ = unix.SetNonblock(fd, true) // for Go's poller
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written
	}
}

// identify returns which process is at the other end, and ensures that pidfd belongs to that process. Both
// facts come from the kernel, and the process cannot influence them: SO_PEERCRED is of the process that
// connected (or made the pair), and /proc has the process of a pidfd. Neither can change to another
// process that has the same number later: a pidfd of a dead process has the number -1.
func identify(conn *net.UnixConn, pidfd *os.File) (pid int, err error) {
	peer, err := peerOf(conn)
	if err != nil {
		return 0, err
	}
	if peer.Pid == 0 {
		return 0, errors.New("the process is in a process namespace that this one does not see: run the agent in that of the host (hostPID, --pid=host)")
	}
	claimed, flags, err := pidfdOf(pidfd)
	switch {
	case err != nil:
		return 0, err
	case claimed == -1:
		return 0, fmt.Errorf("process %d has connected, and the pidfd is of a dead one (process -1): if it died before it was known here, its sessions time out", peer.Pid)
	case claimed != int(peer.Pid):
		return 0, fmt.Errorf("the kernel says that process %d has connected, and the pidfd is of process %d: a process connects by itself, and not through another", peer.Pid, claimed)
	case flags&unix.O_EXCL != 0: // PIDFD_THREAD
		return 0, errors.New("the pidfd is of a thread")
	}
	return claimed, nil
}

// peerOf returns what the kernel knows about the process that has connected, listens or has made the pair.
func peerOf(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	err = control(conn, func(fd uintptr) (err error) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		return os.NewSyscallError("SO_PEERCRED", err)
	})
	return peer, err
}

// pidfdOf returns the process of a pidfd, -1 if it is dead and has been waited for.
func pidfdOf(f *os.File) (pid, flags int, err error) {
	var info []byte
	err = control(f, func(fd uintptr) (err error) {
		if info, err = os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(fd))); err == nil {
			flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0)
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(info)) {
		if number, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err = strconv.Atoi(strings.TrimSpace(number))
			return pid, flags, err
		}
	}
	return 0, 0, errors.New("what was sent is no pidfd")
}

// awaitDeath blocks until the process of a pidfd is dead with all its threads, or until the file's
// deadline.
func awaitDeath(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Read(func(fd uintptr) bool {
		// Poll twice: if a thread other than the first executes a program, a poll at that instant can
		// report the first thread as dead (seen on Linux 6.18). The program is then the process, and
		// lives.
		dead := true
		for range 2 {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			var n int
			n, err = unix.Poll(ready, 0)
			if errors.Is(err, unix.EINTR) {
				n, err = 0, nil
			}
			dead = dead && n > 0 && ready[0].Revents&unix.POLLIN != 0
		}
		return err != nil || dead
	})
	if failed != nil {
		return failed
	}
	return err
}
