//go:build unix

package servertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *process {
	t.Helper()
	p := newProcess(processSpec{
		Name: "shell", Path: "/bin/sh", Args: []string{"-c", script},
		LogPath: filepath.Join(t.TempDir(), "log"),
	})
	t.Cleanup(func() { must(t, p.kill()) })
	return p
}

func TestProcessKillTakesTheWholeGroup(t *testing.T) {
	p := shell(t, "sleep 60 & echo $!; wait")
	must(t, p.start())
	eventually(t, "the grandchild is announced", func() bool { return strings.HasSuffix(p.logTail(100), "\n") })
	grandchild, err := strconv.Atoi(strings.TrimSpace(p.logTail(100)))
	must(t, err)
	must(t, p.kill())
	if p.running() || p.pid() != 0 {
		t.Fatal("still running after kill")
	}
	// The grandchild is reaped by init, which may take a moment.
	eventually(t, "the grandchild is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(grandchild) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestProcessStartsAgainAndAppendsToItsLog(t *testing.T) {
	var copied bytes.Buffer
	p := shell(t, "echo run")
	p.spec.Log = &copied
	for range 2 {
		must(t, p.start())
		<-p.exited()
	}
	if log := p.logTail(100); log != "run\nrun\n" || copied.String() != log {
		t.Fatalf("log %q, copy %q", log, copied.String())
	}
	if err := p.exitError(); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "run\n") {
		t.Fatalf("exit error %v", err)
	}
}

func TestProcessRefusesASecondStart(t *testing.T) {
	p := shell(t, "sleep 60")
	must(t, p.start())
	if p.start() == nil {
		t.Fatal("started twice")
	}
}

func TestProcessStopResumesAPausedOne(t *testing.T) {
	p := shell(t, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
	must(t, p.start())
	eventually(t, "it is up", func() bool { return strings.Contains(p.logTail(100), "up") })
	must(t, p.pause())
	if !p.isPaused() {
		t.Fatal("not paused")
	}
	must(t, p.stop(10*time.Second))
	if log := p.logTail(100); !strings.Contains(log, "bye") {
		t.Fatalf("was killed, not asked: %q", log)
	}
}

func TestProcessStopKillsAStubbornOne(t *testing.T) {
	p := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	must(t, p.start())
	eventually(t, "it is up", func() bool { return strings.Contains(p.logTail(100), "up") })
	must(t, p.stop(100*time.Millisecond))
	if p.running() {
		t.Fatal("still running")
	}
}

func TestProcessMissingProgram(t *testing.T) {
	p := newProcess(processSpec{Name: "x", Path: "/nonexistent", LogPath: filepath.Join(t.TempDir(), "log")})
	if p.start() == nil || p.running() {
		t.Fatal("a missing program was started")
	}
	must(t, p.kill())
	if err := p.pause(); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("pause: %v", err)
	}
}

// Threads come and go while a child runs; only the whole process's end may
// take the child with it.
func TestProcessSurvivesThreadsDiesWithTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("parent-death signals exist on Linux only")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed, as intended
	eventually(t, "the orphan is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestProcessOutlivesTheStartingThread(t *testing.T) {
	p := shell(t, "sleep 60")
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		errs <- p.start()
	}()
	must(t, <-errs)
	time.Sleep(100 * time.Millisecond)
	if !p.running() {
		t.Fatal("the child died with the thread that asked for it")
	}
}

func TestFreePortsAreDistinctAndLow(t *testing.T) {
	got, err := FreePorts(120) // more than two blocks
	must(t, err)
	defer ReleasePorts(got...)
	seen := make(map[int]bool)
	for _, p := range got {
		if seen[p] || p < firstPort || p >= lastPort {
			t.Fatalf("port %d", p)
		}
		seen[p] = true
	}
}

// A child has a copy of every socket of its parent between its fork and its
// exec, so a port that was only tried a moment ago may still be in use.
func TestProxiesWhileChildrenStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	for range 4 {
		children.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 300 {
		p, err := NewProxy("127.0.0.1:1")
		must(t, err)
		must(t, p.Close())
	}
}
