package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/cli"
	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

func TestMain(m *testing.M) {
	commandtest.Main(cli.Main)
	os.Exit(m.Run())
}

// start starts an agent. It needs no service while nobody dies.
func start(t *testing.T, socket string, args ...string) *commandtest.Process {
	t.Helper()
	return commandtest.Start(t, append([]string{"agent", "--socket", socket, "--backend", "etcd://127.0.0.1:1"}, args...)...)
}

const serves = "the agent serves"

func end(a *commandtest.Process, s syscall.Signal) int {
	a.Signal(s)
	return a.Exit()
}

// mode returns the mode of a file; nil if it does not exist.
func mode(t *testing.T, path string) any {
	t.Helper()
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return info.Mode()
}

// A socket is created for its user, or as --mode says, and removed at the end. A dead agent's socket is
// replaced, and a live agent's is not.
func TestSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	first := start(t, socket)
	first.Says(serves)
	assert.Equal(t, os.ModeSocket|0o600, mode(t, socket))
	second := start(t, socket)
	assert.Equal(t, cli.Failed, second.Exit())
	assert.Contains(t, second.Log.String(), "an agent serves at "+socket+" already")
	conn, err := net.Dial("unixpacket", socket)
	require.NoError(t, err, "the first serves on")
	require.NoError(t, conn.Close())

	end(first, syscall.SIGKILL)
	assert.Equal(t, os.ModeSocket|0o600, mode(t, socket), "it could not remove it")
	third := start(t, socket, "--mode", "0666")
	third.Says(serves)
	assert.Equal(t, os.ModeSocket|0o666, mode(t, socket), "with any umask")
	assert.Equal(t, cli.Interrupted, end(third, syscall.SIGTERM))
	assert.Nil(t, mode(t, socket))
}

// Files that are not an agent's are left alone.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, stream := filepath.Join(dir, "file"), filepath.Join(dir, "stream")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o640))
	a := start(t, file)
	assert.Equal(t, cli.Failed, a.Exit())
	assert.Contains(t, a.Log.String(), file+" is there, and is no socket")
	text := must.Get(os.ReadFile(file))(t)
	assert.Equal(t, "precious", string(text))

	l, err := net.Listen("unix", stream) // of another program
	require.NoError(t, err)
	defer l.Close()
	a = start(t, stream)
	assert.Equal(t, cli.Failed, a.Exit())
	assert.Contains(t, a.Log.String(), "is there an agent already?")
	conn := must.Get(net.Dial("unix", stream))(t)
	require.NoError(t, conn.Close())
}

// If many agents begin at once where a dead one has left its socket, one serves.
func TestOneServes(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	dead := start(t, socket)
	dead.Says(serves)
	end(dead, syscall.SIGKILL)
	var all []*commandtest.Process
	for range 8 {
		all = append(all, start(t, socket))
	}
	exited := make(chan *commandtest.Process, len(all))
	for _, a := range all {
		go func() { <-a.Exited; exited <- a }()
	}
	deadline := time.After(wait.Patience)
	for range len(all) - 1 {
		select {
		case a := <-exited:
			assert.Equal(t, cli.Failed, a.Exit())
			assert.Contains(t, a.Log.String(), "serves at "+socket+" already")
			all = slices.DeleteFunc(all, func(b *commandtest.Process) bool { return a == b })
		case <-deadline:
			t.Fatalf("%d serve at one socket", len(all))
		}
	}
	require.Len(t, all, 1)
	all[0].Says(serves)
	conn := must.Get(net.Dial("unixpacket", socket))(t)
	require.NoError(t, conn.Close())
}
