package run_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/cmd/elector/internal/run"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

const election = "/jobs/report"

var errTold = errors.New("told to end")

// A candidate runs a job in this process, with a memory service: only its commands are real processes.
type candidate struct {
	t    *testing.T
	log  wait.Log
	end  context.CancelCauseFunc
	done chan struct{}
	err  error // of Run, after done
}

// stand makes a candidate stand with a script of a job.
func stand(t *testing.T, b backend.Backend, id string, command []string, change func(*run.Config)) *candidate {
	t.Helper()
	c := &candidate{t: t, done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.Background())
	c.end = cancel
	config := run.Config{
		URL: "mem://", Election: election, ID: id, Strategy: "fair", Command: command, Grace: time.Minute,
		Log: slog.New(slog.NewTextHandler(&c.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	require.NoError(t, config.Validate())
	go func() {
		defer close(c.done)
		c.err = run.Run(ctx, b, config)
	}()
	t.Cleanup(func() {
		cancel(errTold)
		c.wait()
		if t.Failed() {
			t.Logf("%s:\n%s", id, c.log.String())
		}
	})
	return c
}

// begun waits until the candidate knows that its command has begun, for the nth time. A command that must end
// before that is killed at once.
func (c *candidate) begun(n int) {
	c.t.Helper()
	wait.For(c.t, "it knows that its command has begun", func() bool { return strings.Count(c.log.String(), "the command has started") >= n })
}

// says waits until the log has a text. The elector logs beside its work.
func (c *candidate) says(text string) {
	c.t.Helper()
	wait.For(c.t, text, func() bool { return c.log.Has(text) })
}

// wait returns the error of Run.
func (c *candidate) wait() error {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(wait.Patience):
		c.t.Fatalf("Run has not returned:\n%s", c.log.String())
	}
	return c.err
}

// service returns one on which a window lasts long enough for this machine, and ends soon enough for a test.
func service() *memory.Service { return memory.New(memory.Options{DefaultTTL: 10 * time.Second}) }

// The exit code of a command that ends by itself is Run's, and the next candidate leads.
func TestExit(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]error{
		"exit 0":        nil,
		"exit 3":        run.Exit{Code: 3},
		"kill -KILL $$": run.Exit{Code: 137},
		"kill -TERM $$": run.Exit{Code: 143},
	} {
		s := service()
		assert.Equal(t, want, stand(t, s.Client("anna"), "anna", []string{"sh", "-c", script}, nil).wait(), script)
		j := newJob(t)
		stand(t, s.Client("ben"), "ben", j.command(heeds+waits), nil)
		j.await(`^began \d+ ben /jobs/report$`, 1, 1)
	}
}

// Processes that a command leaves go with it, in any group or session.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	c := stand(t, service(), "anna", j.command(begins+forks+escapes+`while [ $(wc -l < $0/pids) -lt 3 ]; do sleep 0.02; done`), nil)
	assert.NoError(t, c.wait())
	assert.Len(t, j.pids(), 3)
	assert.Empty(t, alive(j.pids()))
}

// Over HTTP it serves its status and its metrics.
func TestHTTP(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	c := stand(t, service(), "anna", j.command(heeds+waits), func(c *run.Config) { c.HTTP = "127.0.0.1:0" })
	j.await(`^began`, 1, 1)
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(c.log.String())
	require.NotNil(t, address, c.log.String())
	for path, want := range map[string]string{
		"/leader": `"ok":true`, "/replica": `"ok":false`, "/healthz": `"ok":true`, "/status": `"role":"leading"`, "/metrics": `elector_is_leader{election="/jobs/report"} 1`,
	} {
		answer := must.Get(http.Get("http://" + address[1] + path))(t)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, errors.Join(err, answer.Body.Close()))
		assert.Contains(t, string(body), want, path)
	}
	c.end(errTold)
	_ = c.wait()
	_, err := http.Get("http://" + address[1] + "/leader")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A client that is slow, or idle, does not hold a connection for ever.
func TestHTTPSlowClients(t *testing.T) {
	servertest.Long(t, "the time that slow clients have")
	t.Parallel()
	c := stand(t, service(), "anna", []string{"sleep", "1000"}, func(c *run.Config) { c.HTTP = "127.0.0.1:0" })
	wait.For(t, "it answers", func() bool { return strings.Contains(c.log.String(), "address=") })
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(c.log.String())
	for request, why := range map[string]string{
		"GET /leader HTTP/1.1\r\nHost: a\r\n\r\n":                          "idle",
		"POST /leader HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n": "the body does not come",
	} {
		conn := must.Get(net.Dial("tcp", address[1]))(t)
		must.Get(conn.Write([]byte(request)))(t)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(wait.Patience)))
		_, err := io.Copy(io.Discard, conn)
		assert.NoError(t, errors.Join(err, conn.Close()), "not closed: %s", why)
	}
}

// An address in use is reported before anything begins.
func TestHTTPTaken(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := stand(t, service(), "anna", []string{"true"}, func(c *run.Config) { c.HTTP = l.Addr().String() })
	assert.ErrorContains(t, c.wait(), "--http: listen tcp "+l.Addr().String())
}

// A command that cannot be started does not make an endless term.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	program := t.TempDir() + "/program"
	require.NoError(t, os.WriteFile(program, []byte("no program"), 0o700))
	c := stand(t, service(), "anna", []string{program}, nil)
	assert.Equal(t, run.Exit{Code: 126}, c.wait())
	assert.Contains(t, c.log.String(), "exec format error")
}

// A candidate whose session is too short for any command does not lead without one.
func TestTooShort(t *testing.T) {
	t.Parallel()
	c := stand(t, memory.New(memory.Options{DefaultTTL: 100 * time.Millisecond}), "anna", []string{"true"}, nil)
	assert.ErrorContains(t, c.wait(), "a session timeout of 100ms leaves no time to end a command: ask for 500ms or more")
}

// A watchdog that begins too late starts nothing: the command has not failed, and is tried again.
func TestLateWatchdog(t *testing.T) {
	servertest.Long(t, "more than a window")
	t.Setenv(lateWatchdog, t.TempDir()+"/late")
	j := newJob(t)
	c := stand(t, memory.New(memory.Options{DefaultTTL: 4 * time.Second}), "anna", j.command(heeds+waits), nil)
	j.await(`^began \d+ anna /jobs/report$`, 1, 1)
	c.says("it is too late to begin")
}

// A leader that is asked to go ends its command, and stands again.
func TestAsked(t *testing.T) {
	t.Parallel()
	// Time for a watchdog to begin: one that is too late leaves the seat to the other.
	s, j := memory.New(memory.Options{DefaultTTL: time.Minute}), newJob(t)
	anna := stand(t, s.Client("anna"), "anna", j.command(heeds+forks+waits), nil)
	j.await("^began", 1, 2)
	anna.begun(1)
	first := j.pids()
	ben := stand(t, s.Client("ben"), "ben", j.command(heeds+forks+waits), nil)
	wait.For(t, "ben stands", func() bool { return strings.Contains(ben.log.String(), "campaigning") && len(standing(t, s)) == 2 })
	ask(t, s, elector.Request{By: "carl", Why: "a deploy"})
	j.await("^began .* ben", 1, 4)
	assert.Empty(t, alive(first))
	assert.Zero(t, j.told("^overlap"), j.log())
	assert.Equal(t, 1, j.told("^term$"))
	assert.Contains(t, anna.log.String(), `why="asked to go by \"carl\": \"a deploy\""`)
	wait.For(t, "anna stands again", func() bool { return len(standing(t, s)) == 2 })
	anna.says(`cause="resigned: asked to go by \"carl\": \"a deploy\""`) // once
	assert.NotContains(t, anna.log.String(), "lead failed", "it did as it was asked")

	ben.begun(1)
	ben.end(errTold)
	assert.NoError(t, ben.wait(), "its command has exited with 0")
	j.await("^began .* anna", 2, 6)
	assert.Zero(t, j.told("^overlap"), j.log())
}

// A preferred machine takes over when it comes, and no two commands run at once.
func TestPreempt(t *testing.T) {
	t.Parallel()
	s, j := service(), newJob(t)
	ranks := func(rank int64) func(*run.Config) {
		return func(c *run.Config) { c.Strategy, c.Rank, c.Preempt = "ranked", []int64{rank}, true }
	}
	anna := stand(t, s.Client("anna"), "anna", j.command(heeds+forks+waits), ranks(1))
	j.await("^began .* anna", 1, 2)
	anna.begun(1)
	stand(t, s.Client("ben"), "ben", j.command(heeds+forks+waits), ranks(2))
	j.await("^began .* ben", 1, 4)
	assert.Zero(t, j.told("^overlap"), j.log())
}

// standing returns the candidates.
func standing(t *testing.T, s *memory.Service) []elector.Candidate {
	t.Helper()
	e, err := elector.New(elector.Config{Backend: s.Client("looks"), Strategy: fair.Strategy{}, Election: election, ID: "looks"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, e.Close(t.Context())) }()
	return must.Get(e.Candidates(t.Context()))(t)
}

// A command that ignores SIGTERM is killed after the grace, with everything it has started.
func TestIgnores(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	c := stand(t, service(), "anna", j.command(ignores+forks+escapes+waits), func(c *run.Config) { c.Grace = 300 * time.Millisecond })
	j.await("^began", 1, 3)
	c.end(errTold)
	assert.Equal(t, run.Exit{Code: 137}, c.wait())
	assert.Empty(t, alive(j.pids()))
	assert.Contains(t, c.log.String(), "SIGKILL")
}

// Once ends with the command, even if that was told to end.
func TestOnce(t *testing.T) {
	t.Parallel()
	s, j := service(), newJob(t)
	c := stand(t, s, "anna", j.command(begins+`trap 'exit 7' TERM
`+waits), func(c *run.Config) { c.Once = true })
	j.await("^began", 1, 1)
	c.begun(1)
	ask(t, s, elector.Request{})
	assert.Equal(t, run.Exit{Code: 7}, c.wait())
}

// Restart starts the command again in the same term.
func TestRestart(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	c := stand(t, service(), "anna", j.command(begins+`echo "began $ELECTOR_TOKEN" >> $0/log; exit 3`), func(c *run.Config) { c.Restart = true })
	j.await("^began", 2, 2)
	assert.Equal(t, 2, j.told("^"+j.log()[0]+"$"), "one token")
	c.end(errTold)
	if err := c.wait(); !errors.Is(err, errTold) { // else it ran at that moment
		assert.Equal(t, run.Exit{Code: 3}, err)
	}
}

// While another leads no command runs: then Run returns ctx's cause.
func TestEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	s, j := service(), newJob(t)
	stand(t, s.Client("anna"), "anna", j.command(heeds+waits), nil)
	j.await("^began", 1, 1)
	ben := stand(t, s.Client("ben"), "ben", j.command(heeds+waits), nil)
	wait.For(t, "ben stands", func() bool { return len(standing(t, s)) == 2 })
	ben.end(errTold)
	assert.Equal(t, errTold, ben.wait())
	assert.Equal(t, 1, j.told("^began"))
}

// While the link is down a command continues, until the window runs down: it gets SIGTERM, and is gone before
// the term is over.
func TestOutOfTouch(t *testing.T) {
	servertest.Long(t, "a whole window")
	t.Parallel()
	s, j := memory.New(memory.Options{DefaultTTL: 40 * time.Second}), newJob(t) // an eighth of it is for what the command says
	link := s.Client("anna")
	anna := stand(t, link, "anna", j.command(heeds+forks+waits), nil)
	j.await("^began", 1, 2)
	anna.begun(1)
	first := j.pids()
	stand(t, s.Client("ben"), "ben", j.command(heeds+forks+waits), nil)
	wait.For(t, "ben stands", func() bool { return len(standing(t, s)) == 2 })
	link.Suspend()
	j.await("^began .* ben", 1, 4)
	assert.Empty(t, alive(first))
	assert.Zero(t, j.told("^overlap"), j.log())
	assert.Equal(t, 1, j.told("^term$"))
	assert.Contains(t, anna.log.String(), "the trust window runs down")
	link.Resume()
	wait.For(t, "anna stands again", func() bool { return len(standing(t, s)) == 2 })
}

// A reconnect in time goes unnoticed with hold, but not with stop.
func TestOnSuspend(t *testing.T) {
	t.Parallel()
	s, j := memory.New(memory.Options{DefaultTTL: time.Minute}), newJob(t)
	link := s.Client("anna")
	anna := stand(t, link, "anna", j.command(heeds+waits), nil)
	j.await("^began", 1, 1)
	anna.begun(1)
	link.Suspend()
	time.Sleep(2 * time.Second) // nothing should happen
	link.Resume()
	assert.NotContains(t, anna.log.String(), "SIGTERM")
	anna.end(errTold)
	assert.NoError(t, anna.wait())

	ben := stand(t, link, "ben", j.command(heeds+waits), func(c *run.Config) { c.Stop = true })
	j.await("^began .* ben", 1, 2)
	ben.begun(1)
	link.Suspend()
	j.await("^term$", 2, 2)
	assert.Contains(t, ben.log.String(), "out of touch with the service")
	link.Resume()
	j.await("^began .* ben", 2, 3)
	assert.Zero(t, j.told("^overlap"), j.log())
}

// Somebody deletes the leader's entry: another may lead at once, so there is no time for a grace.
func TestDeposed(t *testing.T) {
	t.Parallel()
	s, j := service(), newJob(t)
	anna := stand(t, s, "anna", j.command(heeds+forks+waits), nil)
	j.await("^began", 1, 2)
	s.Delete(standing(t, s)[0].Entry.Key)
	j.await("^began", 2, 4)
	assert.Zero(t, j.told("^term$"))
	assert.Zero(t, j.told("^overlap"), j.log())
	assert.Contains(t, anna.log.String(), "SIGKILL")
	assert.Contains(t, anna.log.String(), "the term is over: deposed")
}

// watchdogOf returns the parent of a process.
func watchdogOf(t testing.TB, pid string) int {
	t.Helper()
	stat := must.Get(os.ReadFile("/proc/" + pid + "/stat"))(t)
	return must.Get(strconv.Atoi(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1]))(t)
}

// Somebody kills the watchdog: the command and its group end.
func TestWatchdogKilled(t *testing.T) {
	t.Parallel()
	s, j := service(), newJob(t)
	anna := stand(t, s, "anna", j.command(heeds+forks+waits), nil)
	j.await("^began", 1, 2)
	require.NoError(t, syscall.Kill(watchdogOf(t, j.pids()[0]), syscall.SIGKILL))
	j.await("^began", 2, 4)
	assert.Zero(t, j.told("^overlap"), j.log())
	assert.Contains(t, anna.log.String(), "its watchdog was killed")
}

// A frozen watchdog does not keep elector from ending the command.
func TestWatchdogFrozen(t *testing.T) {
	servertest.Long(t, "more than a window")
	t.Parallel()
	j := newJob(t)
	c := stand(t, service(), "anna", j.command(ignores+forks+waits), func(c *run.Config) { c.Grace = 300 * time.Millisecond })
	j.await("^began", 1, 2)
	require.NoError(t, syscall.Kill(watchdogOf(t, j.pids()[0]), syscall.SIGSTOP))
	time.Sleep(11 * time.Second) // more than the window: heartbeats continue
	assert.Len(t, alive(j.pids()), 2)
	c.end(errTold)
	assert.Equal(t, run.Exit{Code: 137}, c.wait())
	assert.Empty(t, alive(j.pids()))
}

// ask asks the leader to go, as an operator does.
func ask(t *testing.T, s *memory.Service, r elector.Request) {
	t.Helper()
	in := must.Get(inspect.New(s.Client("operator"), inspect.Options{}))(t)
	defer func() { require.NoError(t, in.Close(t.Context())) }()
	must.Get(in.Ask(t.Context(), election, r))(t)
}
