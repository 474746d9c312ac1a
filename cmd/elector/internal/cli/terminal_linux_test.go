package cli

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// A terminal is a real one, as a user has. Its Log is its output.
type terminal struct {
	*commandtest.Process
	t    *testing.T
	user *os.File // the user's side
}

// inTerminal starts the command in a terminal of its own.
func inTerminal(t *testing.T, args ...string) terminal {
	t.Helper()
	user, tty, err := pty.Open()
	require.NoError(t, err)
	p := terminal{commandtest.New(t, os.Args[0], args...), t, user}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(&p.Log, user) // until the command and all that it started have closed it
	}()
	t.Cleanup(func() {
		_ = tty.Close() // it is closed, unless the command could not be started
		<-over
		assert.NoError(t, user.Close())
	})
	require.NoError(t, pty.Setsize(user, &pty.Winsize{Rows: 40, Cols: 80}))
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = tty, tty, tty
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.Begin()
	require.NoError(t, tty.Close())
	return p
}

func (p terminal) types(keys string) {
	p.t.Helper()
	must.Get(io.WriteString(p.user, keys))(p.t)
}

const interruptKey = "\x03" // Ctrl-C

func TestInTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	url := "etcd://" + etcd.ForTest(t).Addr() + "/terminal?timeout=1m"
	watch := inTerminal(t, "watch", url, "/jobs/reindex")
	watch.Says("there is no election")
	lead := inTerminal(t, "run", url, "/jobs/reindex", "--id", "host-1", "--", "sh", "-c", "echo leads; sleep 1000")
	lead.Says("leads\r\n")
	lead.Says("the command has started")
	watch.Says("host-1 leads, token ")
	status := inTerminal(t, "status", url, "/jobs/reindex")
	assert.Equal(t, OK, status.Exit())
	status.Says("leader    host-1\r\n")

	lead.types(interruptKey)
	assert.Equal(t, 128+int(syscall.SIGTERM), lead.Exit(), "the command's, which was asked to end: %s", lead.Log.String())
	watch.Says("nobody leads")
	watch.types(interruptKey)
	assert.Equal(t, Interrupted, watch.Exit())
	board := inTerminal(t, "dashboard", url, "--listen", "127.0.0.1:0")
	board.Says("http://127.0.0.1:")
	board.types(interruptKey)
	assert.Equal(t, Interrupted, board.Exit())
	board.Says("elector: interrupted")
	for _, p := range []terminal{watch, lead, status, board} {
		assert.NotContains(t, p.Log.String(), "\x1b", "no control sequences")
	}
}

// An agent continues to serve when nobody reads its log any more.
func TestAgentWithoutReaders(t *testing.T) {
	unread, theirs, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, unread.Close())
	socket := filepath.Join(t.TempDir(), "agent")
	p := commandtest.New(t, os.Args[0], "agent", "--socket", socket, "--backend", "mem://")
	p.Cmd.Stderr = theirs
	p.Begin()
	require.NoError(t, theirs.Close())
	wait.For(t, "the agent takes a connection", func() bool {
		conn, err := net.Dial("unixpacket", socket)
		if err != nil {
			return false
		}
		_, _ = conn.Write([]byte("nonsense")) // it complains about this
		return conn.Close() == nil
	})
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, Interrupted, p.Exit())
}
