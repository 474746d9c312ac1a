package agent_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/cli"
	"github.com/elector-go/elector/internal/wait"
)

// beElector has the test binary be the command.
const beElector = "ELECTOR_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beElector) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// An agent is an elector agent of its own. It needs no service while nobody dies.
type agent struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}

	mu     sync.Mutex
	stderr bytes.Buffer
}

func (a *agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stderr.Write(p)
}

func (a *agent) log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stderr.String()
}

func start(t *testing.T, socket string, args ...string) *agent {
	t.Helper()
	a := &agent{t: t, exited: make(chan struct{})}
	a.cmd = exec.Command(os.Args[0], append([]string{"agent", "--socket", socket, "--backend", "etcd://127.0.0.1:1"}, args...)...)
	a.cmd.Env = append(os.Environ(), beElector+"=1")
	a.cmd.Stderr = a
	require.NoError(t, a.cmd.Start())
	go func() {
		defer close(a.exited)
		_ = a.cmd.Wait() // its exit code is what is looked at
	}()
	t.Cleanup(func() { a.end(syscall.SIGKILL) })
	return a
}

// serves waits until it does.
func (a *agent) serves() {
	a.t.Helper()
	wait.For(a.t, "the agent serves", func() bool { return strings.Contains(a.log(), "the agent serves") })
}

// exit waits for its end.
func (a *agent) exit() int {
	a.t.Helper()
	select {
	case <-a.exited:
	case <-time.After(wait.Patience):
		a.t.Fatalf("it does not end:\n%s", a.log())
	}
	return a.cmd.ProcessState.ExitCode()
}

func (a *agent) end(s syscall.Signal) int {
	a.t.Helper()
	_ = a.cmd.Process.Signal(s) // it may have ended
	return a.exit()
}

// mode is that of a file; nil: it is not there.
func mode(t *testing.T, path string) any {
	t.Helper()
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return info.Mode()
}

// A socket is made for its user, or as --mode says, and removed at the end. One that a dead agent has
// left is replaced, and a living agent's is not.
func TestSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	first := start(t, socket)
	first.serves()
	assert.Equal(t, os.ModeSocket|0o600, mode(t, socket))
	second := start(t, socket)
	assert.Equal(t, cli.Failed, second.exit())
	assert.Contains(t, second.log(), "an agent serves at "+socket+" already")
	conn, err := net.Dial("unixpacket", socket)
	require.NoError(t, err, "the first serves on")
	require.NoError(t, conn.Close())

	first.end(syscall.SIGKILL)
	assert.Equal(t, os.ModeSocket|0o600, mode(t, socket), "it could not remove it")
	third := start(t, socket, "--mode", "0666")
	third.serves()
	assert.Equal(t, os.ModeSocket|0o666, mode(t, socket), "whatever the umask is")
	assert.Equal(t, cli.Interrupted, third.end(syscall.SIGTERM))
	assert.Nil(t, mode(t, socket))
}

// What is no agent's is left alone.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, stream := filepath.Join(dir, "file"), filepath.Join(dir, "stream")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o640))
	a := start(t, file)
	assert.Equal(t, cli.Failed, a.exit())
	assert.Contains(t, a.log(), file+" is there, and is no socket")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))

	l, err := net.Listen("unix", stream) // of another program
	require.NoError(t, err)
	defer l.Close()
	a = start(t, stream)
	assert.Equal(t, cli.Failed, a.exit())
	assert.Contains(t, a.log(), "is there an agent already?")
	conn, err := net.Dial("unix", stream)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// Of many that begin at once where a dead one has left its socket, one serves.
func TestOneServes(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	dead := start(t, socket)
	dead.serves()
	dead.end(syscall.SIGKILL)
	var all []*agent
	for range 8 {
		all = append(all, start(t, socket))
	}
	exited := make(chan *agent, len(all))
	for _, a := range all {
		go func() { <-a.exited; exited <- a }()
	}
	deadline := time.After(wait.Patience)
	for range len(all) - 1 {
		select {
		case a := <-exited:
			assert.Equal(t, cli.Failed, a.exit())
			assert.Contains(t, a.log(), "serves at "+socket+" already")
			all = slices.DeleteFunc(all, func(b *agent) bool { return a == b })
		case <-deadline:
			t.Fatalf("%d serve at one socket", len(all))
		}
	}
	require.Len(t, all, 1)
	all[0].serves()
	conn, err := net.Dial("unixpacket", socket)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
