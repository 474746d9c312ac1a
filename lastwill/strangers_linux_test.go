package lastwill_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// stranger connects to an agent by hand.
func stranger(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn := must.Get(net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"}))(t)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait.Patience)))
	return conn
}

// answer returns what the agent says, "" if it closes the connection.
func answer(t *testing.T, conn *net.UnixConn) (kind, why string) {
	t.Helper()
	var packet [1 << 16]byte
	n, err := conn.Read(packet[:])
	if n == 0 {
		require.ErrorIs(t, err, io.EOF)
		return "", ""
	}
	require.NoError(t, err)
	var m struct{ Kind, Why string }
	require.NoError(t, json.Unmarshal(packet[:n], &m))
	return m.Kind, m.Why
}

func say(t *testing.T, conn *net.UnixConn, packet string, descriptors ...int) {
	t.Helper()
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	must.First(conn.WriteMsgUnix([]byte(packet), rights, nil))(t)
}

// welcomed is a stranger that the agent has accepted.
func welcomed(t *testing.T, path, hello string, descriptors ...int) *net.UnixConn {
	t.Helper()
	conn := stranger(t, path)
	say(t, conn, hello, descriptors...)
	kind, _ := answer(t, conn)
	require.Equal(t, "welcome", kind)
	return conn
}

const (
	hello = `{"v":1,"kind":"hello","client":"a stranger"}`
	tell  = `{"v":1,"kind":"tell","will":{"version":1,"service":"toy","session":"one","ttl":"1h0m0s"}}`
)

func pidfd(t *testing.T, pid, flags int) int {
	t.Helper()
	fd := must.Get(unix.PidfdOpen(pid, flags))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func memory(t *testing.T) int {
	t.Helper()
	fd := must.Get(unix.MemfdCreate("holds", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	must.Get(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// The agent trusts the kernel, and nothing that it is sent.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	living := exec.Command("/bin/sleep", "600")
	require.NoError(t, living.Start())
	defer func() { _ = living.Process.Kill(); _ = living.Wait() }()
	dead := exec.Command("/bin/sleep", "0.1")
	require.NoError(t, dead.Start())
	deadfd := pidfd(t, dead.Process.Pid, 0)
	require.NoError(t, dead.Wait())
	gate, self := memory(t), pidfd(t, os.Getpid(), 0)

	for name, c := range map[string]struct {
		packet      string
		descriptors []int
		says        string
	}{
		"another process":          {hello, []int{pidfd(t, living.Process.Pid, 0), gate}, "connects by itself"},
		"a dead process":           {hello, []int{deadfd, gate}, "process -1"},
		"no pidfd":                 {hello, []int{gate, gate}, "no pidfd"},
		"a thread":                 {hello, []int{pidfd(t, os.Getpid(), unix.O_EXCL), gate}, "thread"},
		"a proxy loses them":       {hello, nil, "not through another"},
		"one descriptor":           {hello, []int{self}, "two descriptors"},
		"more of them":             {hello, []int{self, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate, gate}, "too long"},
		"holds on a file":          {hello, []int{self, self}, "no sealed file"},
		"a will first":             {tell, []int{self, gate}, "a hello with two descriptors comes first"},
		"another version":          {strings.Replace(hello, "1", "2", 1), []int{self, gate}, "same release"},
		"garbage":                  {"\x00\xff{{{", []int{self, gate}, "not a message"},
		"JSON of another kind":     {`[1,2]`, []int{self, gate}, "not a message"},
		"nothing within":           {`{"v":1}`, []int{self, gate}, "without content"},
		"a message without an end": {`{"v":1,"kind":"` + strings.Repeat("x", 30000) + `"}`, nil, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := stranger(t, w.agent)
			say(t, conn, c.packet, c.descriptors...)
			kind, why := answer(t, conn)
			assert.Equal(t, "refused", kind)
			assert.Contains(t, why, c.says)
			kind, _ = answer(t, conn)
			assert.Empty(t, kind, "it closes the connection")
		})
	}

	t.Run("garbage after a hello", func(t *testing.T) {
		for _, garbage := range []string{"{", `{"v":1,"kind":"tell"}`, `{"v":1,"kind":"tell","will":{"version":7}}`, strings.Repeat("{", 1<<15)} {
			conn := welcomed(t, w.agent, hello, self, gate)
			say(t, conn, tell)
			say(t, conn, garbage)
			kind, _ := answer(t, conn)
			assert.Empty(t, kind, "it closes the connection")
		}
	})
	t.Run("a service that it does not know", func(t *testing.T) {
		conn := welcomed(t, w.agent, hello, self, gate)
		say(t, conn, strings.Replace(tell, "toy", "other", 1))
		kind, why := answer(t, conn)
		assert.Equal(t, "refused", kind)
		assert.Contains(t, why, "no companion of that service")
	})
	assert.Empty(t, w.ended())
	p, _ := w.candidate()
	id := p.do("open")
	p.kill()
	w.awaitEnded(id)
}

// A proxy that forwards everything, including descriptors, is refused: it is another process than the one
// it speaks for.
func TestProxyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	behind := w.agent
	w.agent = t.TempDir() + "/proxy"
	l := must.Get(net.ListenUnix("unixpacket", &net.UnixAddr{Name: w.agent, Net: "unixpacket"}))(t)
	defer l.Close()
	pass := func(to, from *net.UnixConn) {
		var packet, rights [1 << 16]byte
		for {
			n, r, _, _, err := from.ReadMsgUnix(packet[:], rights[:])
			if err != nil || n == 0 {
				_ = to.CloseWrite()
				return
			}
			if _, _, err := to.WriteMsgUnix(packet[:n], rights[:r], nil); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.AcceptUnix()
			if err != nil {
				return
			}
			agent, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: behind, Net: "unixpacket"})
			if err != nil {
				return
			}
			go pass(agent, client)
			go pass(client, agent)
		}
	}()
	p := w.start("candidate")
	assert.Contains(t, p.do("event"), fmt.Sprintf("process %d has connected, and the pidfd is of process %d", os.Getpid(), p.cmd.Process.Pid))
	p.do("open")
	p.kill()
	time.Sleep(200 * time.Millisecond)
	assert.Empty(t, w.ended())
}

// deaf is a process that does not read the agent's messages.
func deaf() {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: os.Getenv(agentVar), Net: "unixpacket"})
	check(err)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	check(err)
	gate, err := unix.MemfdCreate("holds", unix.MFD_ALLOW_SEALING)
	check(err)
	_, err = unix.FcntlInt(uintptr(gate), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	check(err)
	_, _, err = conn.WriteMsgUnix([]byte(hello), unix.UnixRights(self, gate), nil)
	check(err)
	_, err = conn.Read(make([]byte, 1000))
	check(err)
	_, err = conn.Write([]byte(strings.Replace(tell, "toy", "other", 1)))
	check(err)
	fmt.Println("told")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_, err = conn.Write([]byte(strings.Replace(tell, `"ttl"`, `"secret":"`+base64.StdEncoding.EncodeToString([]byte("secretone"))+`","ttl"`, 1)))
	check(err)
	check(unix.Kill(os.Getpid(), unix.SIGKILL))
}

// The kernel first reports that a process died with something unread, and then returns what it had sent.
func TestDiedWithSomethingUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	p := w.start("deaf")
	require.Equal(t, "told", p.answer())
	w.served.logs("refused a session")
	stop(t, w.served.cmd.Process.Pid)
	p.tell("die")
	_ = p.cmd.Wait()
	signal(t, w.served.cmd.Process.Pid, unix.SIGCONT)
	w.awaitEnded("one")
}
