package cli

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/internal/wait"
)

// A terminal is a real one, as a user sits at.
type terminal struct {
	t     *testing.T
	user  *os.File // the user's side
	cmd   *exec.Cmd
	mu    sync.Mutex
	shown strings.Builder
}

// inTerminal starts the command in a terminal of its own.
func inTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(commandtest.Env(), "TERM=xterm")
	user, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 80})
	require.NoError(t, err)
	p := &terminal{t: t, user: user, cmd: cmd}
	over := make(chan struct{})
	go func() {
		defer close(over)
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			p.mu.Lock()
			p.shown.Write(buf[:n])
			p.mu.Unlock()
			if err != nil { // the command and all that it started have let go of it
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test has failed
		<-over
		assert.NoError(t, user.Close())
	})
	return p
}

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String()
}

// shows waits until the terminal shows the text.
func (p *terminal) shows(text string) {
	p.t.Helper()
	wait.For(p.t, text, func() bool { return strings.Contains(p.text(), text) })
}

func (p *terminal) types(keys string) {
	p.t.Helper()
	_, err := io.WriteString(p.user, keys)
	require.NoError(p.t, err)
}

// ends waits for the exit code.
func (p *terminal) ends() int {
	_ = p.cmd.Wait() // its exit code is what is looked at
	return p.cmd.ProcessState.ExitCode()
}

const interruptKey = "\x03" // Ctrl-C

func TestInTerminal(t *testing.T) {
	url := "etcd://" + etcd.ForTest(t).Addr() + "/terminal?timeout=1m"
	watch := inTerminal(t, "watch", url, "/jobs/reindex")
	watch.shows("there is no election")
	lead := inTerminal(t, "run", url, "/jobs/reindex", "--id", "host-1", "--", "sh", "-c", "echo leads; sleep 1000")
	lead.shows("leads\r\n")
	lead.shows("the command has started")
	watch.shows("host-1 leads, token ")
	status := inTerminal(t, "status", url, "/jobs/reindex")
	assert.Equal(t, OK, status.ends())
	status.shows("leader    host-1\r\n")

	lead.types(interruptKey)
	assert.Equal(t, 128+int(syscall.SIGTERM), lead.ends(), "the command's, which was asked to end: %s", lead.text())
	watch.shows("nobody leads")
	watch.types(interruptKey)
	assert.Equal(t, Interrupted, watch.ends())
	board := inTerminal(t, "dashboard", url, "--listen", "127.0.0.1:0")
	board.shows("http://127.0.0.1:")
	board.types(interruptKey)
	assert.Equal(t, Interrupted, board.ends())
	board.shows("elector: interrupted")
	for _, p := range []*terminal{watch, lead, status, board} {
		assert.NotContains(t, p.text(), "\x1b", "no control sequences")
	}
}

// An agent serves on when nobody reads its log any more.
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
		_, _ = conn.Write([]byte("nonsense")) // of which it complains
		return conn.Close() == nil
	})
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, Interrupted, p.Exit())
}
