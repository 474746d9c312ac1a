package run_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A process is an elector run in its own process.
type process struct {
	*commandtest.Process
	t testing.TB
}

// start starts the command elector run.
func start(t testing.TB, args ...string) process {
	t.Helper()
	return process{commandtest.Start(t, append([]string{"run"}, args...)...), t}
}

// standAs makes one stand under a name.
func standAs(t testing.TB, url, id string, command []string) process {
	t.Helper()
	return start(t, append([]string{url, election, "--id", id, "--"}, command...)...)
}

// short is a session timeout that a machine that pauses for a moment does not exceed.
const short = 10 * time.Second

// awaitCandidates waits until so many stand, and returns them. One that logs "campaigning" need not stand yet.
func awaitCandidates(t testing.TB, url string, n int) []inspect.Candidate {
	t.Helper()
	b, err := dial.Open(context.Background(), url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, b.Close()) }()
	in := must.Get(inspect.New(b, inspect.Options{}))(t)
	defer func() { assert.NoError(t, in.Close(context.Background())) }()
	var v inspect.View
	wait.For(t, fmt.Sprint(n, " stand"), func() bool {
		v, err = in.Candidates(context.Background(), election)
		return err == nil && v.Count == n
	})
	return v.Candidates
}

// begun waits until it knows that its command has begun, for the nth time. A command that must end before
// that is killed at once.
func (p process) begun(n int) {
	p.t.Helper()
	wait.For(p.t, "it knows that its command has begun", func() bool { return strings.Count(p.Log.String(), "the command has started") >= n })
}

// zooKeeper and etcd are servers that the tests share. Sessions there may be long.
var (
	zooKeeper = servertest.Share(func() (*servertest.ZooKeeper, error) {
		return servertest.StartZooKeeper(servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, MaxSessionTimeout: long})
	})
	etcd = servertest.Share(func() (*servertest.Etcd, error) {
		return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
	})
)

// onEach runs a test on each real service, with a session timeout. url returns the service's URL for an
// address. With go test -short it is one service, and no session times out.
func onEach(t *testing.T, timeout time.Duration, test func(t testing.TB, addr string, url func(addr string) string)) {
	on := func(name string, begin func(t testing.TB) (addr string, url func(string) string)) {
		t.Run(name, func(t *testing.T) {
			if name != "etcd" || timeout < long {
				servertest.Long(t, "several services, and sessions that run out")
			}
			t.Parallel()
			addr, url := begin(t)
			test(t, addr, url)
		})
	}
	on("zookeeper", func(t testing.TB) (string, func(string) string) {
		path := rand.Text()
		return zooKeeper.ForTest(t).Addr(), func(addr string) string { return fmt.Sprintf("zk://%s/%s?timeout=%v", addr, path, timeout) }
	})
	on("etcd", func(t testing.TB) (string, func(string) string) {
		path := rand.Text()
		return etcd.ForTest(t).Addr(), func(addr string) string { return fmt.Sprintf("etcd://%s/%s?timeout=%v", addr, path, timeout) }
	})
	on("consul", func(t testing.TB) (string, func(string) string) {
		return servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true}).Addr(), func(addr string) string { return fmt.Sprintf("consul://%s?check=%v", addr, timeout/2) }
	})
}

// TestFrozen freezes elector run for longer than its session: the watchdog kills the command in time. It
// stands again when it continues.
func TestFrozen(t *testing.T) {
	t.Parallel()
	onEach(t, short, func(t testing.TB, addr string, url func(string) string) {
		j, anna, ben := duel(t, url(addr), heeds+forks+escapes+waits, 3)
		first := j.pids()
		stopped := time.Now()
		anna.Signal(syscall.SIGSTOP)
		j.await("^began .* ben", 1, 6)
		assert.Greater(t, time.Since(stopped), short/4, "nobody ends the session of a frozen process")
		assert.NotContains(t, anna.Log.String(), "ended the session")
		assert.Empty(t, alive(first))
		assert.Zero(t, j.told("^overlap"), j.log())
		assert.Zero(t, j.told("^term$"), "a frozen process sends no signal")
		anna.Signal(syscall.SIGCONT)
		anna.Says("its time was over")
		ben.begun(1)
		ben.Signal(syscall.SIGTERM)
		j.await("^began .* anna", 2, 9)
		assert.Zero(t, ben.Exit(), "its command's")
		assert.Zero(t, j.told("^overlap"), j.log())
	})
}

// TestWatchdogKilledAlone kills the watchdog of an elector run: the command is gone, with everything it has
// started, before it is started again.
func TestWatchdogKilledAlone(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	p := start(t, append([]string{"mem://", election, "--"}, j.command(heeds+forks+escapes+waits)...)...)
	j.await("^began", 1, 3)
	p.begun(1) // else it never logs that
	first := j.pids()
	require.NoError(t, syscall.Kill(watchdogOf(t, first[0]), syscall.SIGKILL))
	j.await("^began", 2, 6)
	assert.Empty(t, alive(first))
	assert.Zero(t, j.told("^overlap"), j.log())
	p.begun(2)
	p.Signal(syscall.SIGTERM)
	assert.Zero(t, p.Exit())
	assert.Empty(t, alive(j.pids()))
}

// TestLogUnread: when nobody reads the log any more, elector still leads, and its command ends as usual.
func TestLogUnread(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	log, theirs, err := os.Pipe()
	require.NoError(t, err)
	p := process{commandtest.New(t, os.Args[0], append([]string{"run", "mem://", election, "--"}, j.command(heeds+waits)...)...), t}
	p.Cmd.Stderr = theirs
	p.Begin()
	require.NoError(t, theirs.Close())
	for lines := bufio.NewScanner(log); lines.Scan() && !strings.Contains(lines.Text(), "the command has started"); {
	}
	j.await("^began", 1, 1)
	require.NoError(t, log.Close())
	p.Signal(syscall.SIGTERM)
	assert.Zero(t, p.Exit())
	assert.Equal(t, 1, j.told("^term$"))
}

// TestPipesFull sends the log and the output of elector run and of its command to a full pipe that nobody
// reads, as behind a stopped terminal: nothing waits for it.
func TestPipesFull(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, anna process, url, path string){
		"interrupted": func(_ *testing.T, anna process, _, _ string) { anna.Signal(syscall.SIGTERM) },
		"asked": func(t *testing.T, _ process, url, _ string) {
			assert.Zero(t, commandtest.Start(t, "resign", url, election).Exit())
		},
		"deposed": func(t *testing.T, _ process, url, path string) {
			for _, c := range awaitCandidates(t, url, 2) {
				if c.Leads { // ben's entry stays: else either may be the next
					require.NoError(t, etcdtest.DeleteAll([]string{etcd.ForTest(t).Addr()}, path+c.Key))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, j := "/"+rand.Text(), newJob(t)
			url := fmt.Sprintf("etcd://%s%s?timeout=%v", etcd.ForTest(t).Addr(), path, long)
			var ends [2]int
			require.NoError(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC)) // which writers are blocked on, as on most
			log, theirs := os.NewFile(uintptr(ends[0]), "log"), os.NewFile(uintptr(ends[1]), "log")
			anna := process{commandtest.New(t, os.Args[0], append([]string{"run", url, election, "--id", "anna", "--"}, j.command(heeds+waits)...)...), t}
			anna.Cmd.Stdout, anna.Cmd.Stderr = theirs, theirs
			anna.Begin()
			for lines := bufio.NewScanner(log); lines.Scan() && !strings.Contains(lines.Text(), "the command has started"); {
			}
			j.await("^began .* anna", 1, 1)
			annas := j.pids()
			filled := make(chan struct{})
			go func() {
				defer close(filled)
				_, _ = theirs.Write(make([]byte, 1<<20)) // until nobody can read it any more
			}()
			defer func() { <-filled }()
			defer log.Close()
			wait.For(t, "the pipe is full", func() bool {
				n, err := unix.IoctlGetInt(ends[0], unix.TIOCINQ)
				return err == nil && n >= 1<<16
			})
			standAs(t, url, "ben", j.command(heeds+waits))
			awaitCandidates(t, url, 2)
			end(t, anna, url, path)
			j.await("^began .* ben", 1, 2)
			if name == "deposed" { // gives no time: both hear of it at once. The window lasts longer than the patience
				wait.For(t, "the old command is gone", func() bool { return len(alive(annas)) == 0 })
			} else {
				assert.Zero(t, j.told("^overlap"), j.log())
				assert.Equal(t, 1, j.told("^term$"))
			}
			anna.Signal(syscall.SIGTERM)
			codes := []int{0, 130}
			if name == "deposed" {
				codes = append(codes, 137) // the command was killed, and that is not over yet
			}
			assert.Contains(t, codes, anna.Exit())
		})
	}
}

// TestHangup closes the terminal of elector run, or its connection: its command ends as with SIGTERM.
func TestHangup(t *testing.T) {
	t.Parallel()
	// Children inherit an ignored signal, as under nohup, but not a handled one.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	j := newJob(t)
	p := start(t, append([]string{"mem://", election, "--"}, j.command(heeds+waits)...)...)
	j.await("^began", 1, 1)
	p.begun(1)
	p.Signal(syscall.SIGHUP)
	assert.Zero(t, p.Exit())
	assert.Equal(t, 1, j.told("^term$"))
}

// TestCut drops all messages in both directions: the command is told to end, and is gone before the next one
// begins. TestOutOfTouch tests what it is told, and in which order.
func TestCut(t *testing.T) {
	t.Parallel()
	onEach(t, short, func(t testing.TB, addr string, url func(string) string) {
		j, link := newJob(t), proxytest.ForTest(t, addr)
		command := j.command(heeds + forks + waits)
		anna := standAs(t, url(link.Addr()), "anna", command)
		j.await("^began .* anna", 1, 2)
		first := j.pids()
		standAs(t, url(addr), "ben", command).Says("campaigning")
		link.Stall()
		j.await("^began .* ben", 1, 4)
		assert.Empty(t, alive(first))
		assert.Zero(t, j.told("^overlap"), j.log())
		anna.Says("the trust window runs down") // an eighth of the timeout may be too short here for the command to say more
	})
}

// TestAway has no service at the start: elector run says so, and ends when it is told to.
func TestAway(t *testing.T) {
	t.Parallel()
	port := must.Get(loopback.Ports(1))(t)
	defer loopback.Release(port...)
	p := start(t, fmt.Sprintf("zk://127.0.0.1:%d", port[0]), election, "--", "true")
	p.Says("trying again")
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 130, p.Exit())
	assert.Contains(t, p.Log.String(), "elector: interrupted\n")
}

// TestTerminal interrupts elector run as a user does, at a terminal: that is for elector, and the command
// gets SIGTERM once. Its standard input is not the terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	line := fmt.Sprintf("exec %s run mem:// %s -- sh -c '%s' %s", os.Args[0], election, `read x || echo "no input" >> $0/log
trap "echo term >> \$0/log; until [ -e \$0/end ]; do sleep 0.02; done; exit 5" TERM
`+waits, j.dir)
	p := process{commandtest.New(t, "script", "--quiet", "--return", "--command", line, "/dev/null"), t}
	keys := must.Get(p.Cmd.StdinPipe())(t)
	p.Cmd.Stdout = &p.Log
	p.Begin()
	j.await("^began", 1, 0)
	assert.Equal(t, 1, j.told("^no input$"))
	p.begun(1)
	_, err := keys.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	p.Says("interrupted: cleaning up")
	require.NoError(t, os.WriteFile(filepath.Join(j.dir, "end"), nil, 0o600))
	assert.Equal(t, 5, p.Exit())
	assert.Equal(t, 1, j.told("^term$"))
}

// TestTwice holds that a second signal waits for nothing, and leaves no command.
func TestTwice(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	p := start(t, append([]string{"mem://", election, "--grace", "1h", "--"}, j.command(ignores+forks+escapes+waits)...)...)
	j.await("^began", 1, 3)
	p.begun(1)
	p.Signal(syscall.SIGTERM)
	p.Says("SIGTERM")
	p.Insist(syscall.SIGTERM)
	assert.Equal(t, 130, p.Exit())
	wait.For(t, "the command is gone", func() bool { return len(alive(j.pids())) == 0 })
}

// TestStandardFiles holds that standard input, output and error are passed on, with the log in the requested form.
func TestStandardFiles(t *testing.T) {
	t.Parallel()
	p := commandtest.New(t, os.Args[0], "run", "mem://", election, "--log-format", "json", "--", "sh", "-c", "cat; echo error >&2; exit 9")
	var out wait.Log
	p.Cmd.Stdin, p.Cmd.Stdout = strings.NewReader("input\n"), &out
	p.Begin()
	assert.Equal(t, 9, p.Exit())
	assert.Equal(t, "input\n", out.String())
	assert.Regexp(t, `(?m)^error$`, p.Log.String())
	assert.Contains(t, p.Log.String(), `"msg":"the command has started","token":`)
}
