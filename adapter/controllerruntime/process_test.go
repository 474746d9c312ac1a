package electorcontrollerruntime

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// Environment variables for a process of the test.
const (
	envID     = "ELECTOR_TEST_ID"
	envServer = "ELECTOR_TEST_SERVER"
	envLog    = "ELECTOR_TEST_LOG"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if id := os.Getenv(envID); id != "" {
		if err := operate(id, os.Getenv(envServer), os.Getenv(envLog)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// operate is a process: while it leads, it appends lines to the log, until SIGTERM.
func operate(id, server, path string) error {
	out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b, err := zookeeper.New(zookeeper.Config{Servers: []string{server}, SessionTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/operator", ID: id})
	if err != nil {
		return err
	}
	mgr, err := NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, e, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for t := e.Term(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if !t.Valid() { // by the clock: after a pause, ctx ends when the runtime has run its timers
				continue
			}
			if _, err := fmt.Fprintln(out, id, t.Token()); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := mgr.Start(ctx); err != nil {
		return err
	}
	closing, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	return e.Close(closing)
}

// A leader that is frozen for longer than its session writes at most what it had begun, and exits. SIGTERM hands
// the seat over.
func TestTwoProcesses(t *testing.T) {
	servertest.Long(t, "the time in which a session runs out")
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{QuickStart: true, NoSync: true})
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	self := must.Get(os.Executable())(t)
	launch := func(id string) *process.Process {
		return process.ForTest(t, process.Spec{
			Name: id, Path: self, LogPath: path + "." + id,
			Env: []string{envID + "=" + id, envServer + "=" + server.Addr(), envLog + "=" + path},
		})
	}
	lines := func() []string {
		return strings.Split(strings.TrimSuffix(string(must.Get(os.ReadFile(path))(t)), "\n"), "\n")
	}
	// await blocks until the process has written ten lines after the first n, and returns how many there are.
	await := func(id string, n int) (now int) {
		t.Helper()
		require.Eventually(t, func() bool {
			all := lines()
			now = len(all)
			return strings.Count(strings.Join(all[n:], "\n"), id+" ") >= 10
		}, wait.Patience, 20*time.Millisecond, "lines of %s", id)
		return now
	}

	a := launch("a")
	await("a", 0)
	b := launch("b")
	await("a", await("a", 0))
	require.NoError(t, a.Pause())
	await("b", 0)
	handed := slices.IndexFunc(lines(), func(l string) bool { return strings.HasPrefix(l, "b ") })
	require.NoError(t, a.Resume())
	select {
	case <-a.Exited():
	case <-time.After(wait.Patience):
		t.Fatal("it has not exited")
	}
	assert.ErrorContains(t, a.ExitError(), "exit status 1")
	assert.ErrorContains(t, a.ExitError(), "the term is over, and the process must exit: ")
	led := await("b", len(lines()))
	late := strings.Count(strings.Join(lines()[handed:led], "\n"), "a ")
	assert.LessOrEqual(t, late, 1, "except the line that it had begun when it was frozen")

	launch("a")
	await("b", await("b", len(lines())))
	require.NoError(t, b.Stop(wait.Patience))
	assert.ErrorContains(t, b.ExitError(), "exit status 0")
	stopped := len(lines())
	await("a", stopped)
	var last, reigns uint64
	for i, l := range lines() {
		id, text, _ := strings.Cut(l, " ")
		token := must.Get(strconv.ParseUint(text, 10, 64))(t)
		switch {
		case id == "a" && i >= handed && i < led: // late
		case token != last:
			assert.Greater(t, token, last)
			last = token
			reigns++
		}
	}
	assert.Equal(t, uint64(3), reigns, "a, b, a")
}
