package electorgocron_test

import (
	"context"
	"errors"
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

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	electorgocron "github.com/elector-go/elector/adapter/gocron"
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
	if id := os.Getenv(envID); id != "" {
		if err := work(id, os.Getenv(envServer), os.Getenv(envLog)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// work is a process: it appends a line to the log for each job that begins, until SIGTERM.
func work(id, server, path string) (err error) {
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b, err := zookeeper.New(zookeeper.Config{Servers: []string{server}, SessionTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs", ID: id})
	if err != nil {
		return err
	}
	var g electorgocron.Elector
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(&g))
	if err != nil {
		return err
	}
	for _, task := range []gocron.Task{
		g.Task(func(_ context.Context, t *elector.Term) error {
			_, err := fmt.Fprintln(log, id, "task", t.Token())
			return err
		}),
		gocron.NewTask(func() { fmt.Fprintln(log, id, "plain 0") }),
	} {
		// One run at a time: of the runs that began before a pause, at most one shows after it.
		_, err := s.NewJob(gocron.DurationJob(20*time.Millisecond), task, gocron.WithSingletonMode(gocron.LimitModeReschedule))
		if err != nil {
			return err
		}
	}
	s.Start()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := elector.Run(ctx, e, g.Lead); ctx.Err() == nil {
		return err
	}
	closing, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	return errors.Join(s.Shutdown(), e.Close(closing))
}

// A run is a job that has begun: where, of which kind, and, for a task, with which token.
type run struct {
	id, kind string
	token    uint64
}

// runs returns the runs in the log, in the order in which they began.
func runs(t *testing.T, log string) (all []run) {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		require.Len(t, words, 3, line)
		token := must.Get(strconv.ParseUint(words[2], 10, 64))(t)
		all = append(all, run{words[0], words[1], token})
	}
	return all
}

// awaitRuns blocks until both kinds of jobs have begun ten times in a process, after the first n runs, and
// returns how many runs there are then.
func awaitRuns(t *testing.T, log, id string, n int) (now int) {
	t.Helper()
	require.Eventually(t, func() bool {
		count := map[string]int{}
		all := runs(t, log)
		for _, r := range all[n:] {
			if r.id == id {
				count[r.kind]++
			}
		}
		now = len(all)
		return count["task"] >= 10 && count["plain"] >= 10
	}, wait.Patience, 20*time.Millisecond, "jobs of %s", id)
	return now
}

// When the leader is frozen or killed, jobs continue in the other process, and a process whose term is
// over starts none.
func TestTwoProcesses(t *testing.T) {
	servertest.Long(t, "the time in which two sessions run out")
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{QuickStart: true, NoSync: true})
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, nil, 0o644))
	self := must.Get(os.Executable())(t)
	launch := func(id string) *process.Process {
		return process.ForTest(t, process.Spec{
			Name: id, Path: self, LogPath: log + "." + id,
			Env: []string{envID + "=" + id, envServer + "=" + server.Addr(), envLog + "=" + log},
		})
	}
	a := launch("a")
	awaitRuns(t, log, "a", 0)
	b := launch("b")
	awaitRuns(t, log, "a", awaitRuns(t, log, "a", 0)) // b has had time to start one

	for _, r := range runs(t, log) {
		require.Equal(t, "a", r.id, "b stands by")
	}
	require.NoError(t, a.Pause())
	awaitRuns(t, log, "b", 0)
	handed := slices.IndexFunc(runs(t, log), func(r run) bool { return r.id == "b" })
	require.NoError(t, a.Resume())
	led := awaitRuns(t, log, "b", awaitRuns(t, log, "b", len(runs(t, log))))
	late := map[string]int{}
	for _, r := range runs(t, log)[handed:led] {
		if r.id == "a" {
			late[r.kind]++
		}
	}
	assert.LessOrEqual(t, late["task"], 1, "except the one that it had begun when it was frozen")
	assert.LessOrEqual(t, late["plain"], 1, "except the one that it had begun when it was frozen")

	require.NoError(t, b.Kill()) // kill -9
	killed := len(runs(t, log))
	awaitRuns(t, log, "a", killed)
	launch("b")
	awaitRuns(t, log, "a", awaitRuns(t, log, "a", len(runs(t, log))))
	require.NoError(t, a.Stop(wait.Patience)) // SIGTERM: it releases the seat
	awaitRuns(t, log, "b", len(runs(t, log)))
	since := runs(t, log)[killed:]
	again := slices.IndexFunc(since, func(r run) bool { return r.id == "b" })
	clear(late)
	for _, r := range since[again:] {
		if r.id == "a" {
			late[r.kind]++
		}
	}
	assert.Zero(t, late["task"], "a's seat was free when its tasks had ended")
	assert.LessOrEqual(t, late["plain"], 1, "nothing waits for the one that had begun")

	var last uint64
	reigns := 0
	for i, r := range runs(t, log) {
		if r.kind == "task" && !(r.id == "a" && i >= handed && i < led) {
			assert.GreaterOrEqual(t, r.token, last)
			if r.token > last {
				reigns++
			}
			last = r.token
		}
	}
	assert.Equal(t, 4, reigns, "a, b, a, b")
}
