//go:build unix

package process

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p := New(Spec{
		Name: "shell", Path: "/bin/sh", Args: []string{"-c", script},
		LogPath: filepath.Join(t.TempDir(), "log"),
	})
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

func TestProcessKillTakesTheWholeGroup(t *testing.T) {
	p := shell(t, "sleep 60 & echo $!; wait")
	require.NoError(t, p.Start())
	wait.For(t, "the grandchild is announced", func() bool { return strings.HasSuffix(p.LogTail(100), "\n") })
	grandchild := must.Get(strconv.Atoi(strings.TrimSpace(p.LogTail(100))))(t)
	require.NoError(t, p.Kill())
	require.False(t, p.Running() || p.PID() != 0, "still running after kill")
	// Init reaps the grandchild, which may take a moment.
	wait.For(t, "the grandchild is gone", func() bool { return Ended(grandchild) })
}

func TestProcessStartsAgainAndAppendsToItsLog(t *testing.T) {
	var copied bytes.Buffer
	p := shell(t, "echo run")
	p.Spec.Log = &copied
	for range 2 {
		require.NoError(t, p.Start())
		<-p.Exited()
	}
	require.Equal(t, "run\nrun\n", p.LogTail(100))
	require.Equal(t, "run\nrun\n", copied.String())
	require.ErrorIs(t, p.ExitError(), ErrNotRunning)
	require.ErrorContains(t, p.ExitError(), "run\n")
}

func TestRun(t *testing.T) {
	spec := Spec{Name: "shell", Path: "/bin/sh", Args: []string{"-c", "id -un"}, LogPath: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, Run(spec))
	spec.Args = []string{"-c", "echo why; exit 3"}
	err := Run(spec)
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "why")
	spec.User = "no-such-user"
	require.ErrorContains(t, Run(spec), "no-such-user")
	if os.Geteuid() != 0 {
		return // only root may run programs as other users
	}
	spec.User, spec.Args, spec.LogPath = "nobody", []string{"-c", "id -un; id -G | wc -w"}, filepath.Join(t.TempDir(), "log")
	require.NoError(t, Run(spec))
	log := must.Get(os.ReadFile(spec.LogPath))(t)
	if got := strings.Fields(string(log)); len(got) != 2 || got[0] != "nobody" || got[1] != "1" {
		t.Fatalf("user and number of groups: %q", got)
	}
}

func TestProcessRefusesASecondStart(t *testing.T) {
	p := shell(t, "sleep 60")
	require.NoError(t, p.Start())
	require.Error(t, p.Start(), "started twice")
}

func TestProcessStopResumesAPausedOne(t *testing.T) {
	p := shell(t, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
	require.NoError(t, p.Start())
	wait.For(t, "it is up", func() bool { return strings.Contains(p.LogTail(100), "up") })
	require.NoError(t, p.Pause())
	require.True(t, p.Paused(), "not paused")
	require.NoError(t, p.Stop(wait.Patience))
	require.Contains(t, p.LogTail(100), "bye", "it was killed, not asked")
}

func TestProcessStopKillsAStubbornOne(t *testing.T) {
	p := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	require.NoError(t, p.Start())
	wait.For(t, "it is up", func() bool { return strings.Contains(p.LogTail(100), "up") })
	require.NoError(t, p.Stop(100*time.Millisecond))
	require.False(t, p.Running(), "still running")
}

func TestProcessMissingProgram(t *testing.T) {
	p := New(Spec{Name: "x", Path: "/nonexistent", LogPath: filepath.Join(t.TempDir(), "log")})
	require.False(t, p.Start() == nil || p.Running(), "a missing program was started")
	require.NoError(t, p.Kill())
	require.ErrorIs(t, p.Pause(), ErrNotRunning)
}

// The end of a thread does not end the child; the end of the test binary does.
func TestProcessSurvivesThreadsDiesWithTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("parent-death signals exist on Linux only")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"="+filepath.Join(t.TempDir(), "log"))
	out := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed, as intended
	wait.For(t, "the orphan is gone", func() bool { return Ended(pid) })
}

func TestProcessOutlivesTheStartingThread(t *testing.T) {
	p := shell(t, "sleep 60")
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		errs <- p.Start()
	}()
	require.NoError(t, <-errs)
	time.Sleep(100 * time.Millisecond)
	require.True(t, p.Running(), "the child died with the thread that asked for it")
}
