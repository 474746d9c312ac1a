package run_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/internal/must"
	processes "github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// long is a session timeout that is longer than all waits of a test.
const long = 2 * wait.Patience

// locks makes all of a job hold a lock that nobody else of the job may hold.
const locks = `exec 9>> $0/lock
flock -n 9 || echo "overlap: the lock is held $ELECTOR_TOKEN" >> $0/log
ls -l /proc/self/fd >> $0/files
`

var pidOfCompanion = regexp.MustCompile(`its companion ends its session" pid=(\d+)`)

// companion waits until it has one, and returns its process id.
func (p process) companion() string {
	p.t.Helper()
	p.Says("its companion ends its session")
	pid := pidOfCompanion.FindStringSubmatch(p.Log.String())
	require.NotNil(p.t, pid, p.Log.String())
	return pid[1]
}

// duel makes anna run a script, in so many processes, and ben wait for its turn.
func duel(t testing.TB, url, script string, processes int) (j *job, anna, ben process) {
	t.Helper()
	j = newJob(t)
	anna = standAs(t, url, "anna", j.command(script))
	j.await("^began .* anna", 1, processes)
	anna.companion()
	ben = standAs(t, url, "ben", j.command(script))
	ben.Says("campaigning")
	return j, anna, ben
}

// onEtcd returns the URL of a place on etcd, with a session timeout that nobody waits for. It is for tests
// that kill and freeze at length.
func onEtcd(t *testing.T) string {
	t.Helper()
	servertest.Long(t, "processes that are killed and frozen at length")
	return fmt.Sprintf("etcd://%s/%s?timeout=%v", etcd.ForTest(t).Addr(), rand.Text(), long)
}

// TestWill kills elector run while its command runs. The next one's command starts long before the session
// has timed out, but only after the first is gone with everything it has started.
func TestWill(t *testing.T) {
	t.Parallel()
	onEach(t, long, func(t testing.TB, addr string, url func(string) string) {
		j, anna, _ := duel(t, url(addr), locks+ignores+forks+escapes+waits, 3)
		anna.Signal(syscall.SIGKILL)
		j.await("^began .* ben", 1, 6)
		assert.Zero(t, j.told("^overlap"), j.log())
		anna.Says("ended the session of a dead process")
		assert.Equal(t, 1, strings.Count(anna.Log.String(), "campaigning"), "the companion does not stand")
		files := must.Get(os.ReadFile(filepath.Join(j.dir, "files")))(t)
		assert.Contains(t, string(files), "/lock")
		assert.NotContains(t, string(files), "memfd", "the command could say that it is gone")
	})
}

// TestWillWithSASL does that on a ZooKeeper server that enforces SASL: the companion has the credentials, too.
func TestWillWithSASL(t *testing.T) {
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, MaxSessionTimeout: long, Extra: []string{"enforce.auth.enabled=true", "enforce.auth.schemes=sasl"},
		JAAS: servertest.DigestJAAS("ann", "S3cr3t"),
	})
	t.Setenv("ZOOKEEPER_AUTH", "sasl:ann:S3cr3t")
	j, anna, _ := duel(t, fmt.Sprintf("zk://%s/secure?timeout=%v", server.Addr(), long), ignores+waits, 1)
	anna.Signal(syscall.SIGKILL)
	j.await("^began .* ben", 1, 2)
	anna.Says("ended the session of a dead process")
	assert.NotContains(t, anna.Log.String(), "S3cr3t")
}

// TestWillWhileWaiting kills an elector run that waits: its entry goes at once.
func TestWillWhileWaiting(t *testing.T) {
	t.Parallel()
	onEach(t, long, func(t testing.TB, addr string, url func(string) string) {
		j := newJob(t)
		command := j.command(heeds + waits)
		standAs(t, url(addr), "anna", command)
		j.await("^began .* anna", 1, 1)
		ben := standAs(t, url(addr), "ben", command)
		ben.companion()
		awaitCandidates(t, url(addr), 2)
		ben.Signal(syscall.SIGKILL)
		awaitCandidates(t, url(addr), 1)
	})
}

// TestWillAndWatchdogKilled kills elector run and its watchdog at once. Nobody is left to say that the
// command is gone: the session times out.
func TestWillAndWatchdogKilled(t *testing.T) {
	t.Parallel()
	onEach(t, short, func(t testing.TB, addr string, url func(string) string) {
		j, anna, _ := duel(t, url(addr), locks+begins+`echo "began $ELECTOR_TOKEN $ELECTOR_ID" >> $0/log; exec sleep 1000`, 1)
		watchdog := watchdogOf(t, j.pids()[0])
		require.NoError(t, processes.Freeze(anna.Cmd.Process.Pid)) // so that neither sees the other's end
		require.NoError(t, processes.Freeze(watchdog))
		died := time.Now()
		anna.Signal(syscall.SIGKILL)
		require.NoError(t, syscall.Kill(watchdog, syscall.SIGKILL))
		anna.Says("a process has died")
		j.await("^began .* ben", 1, 2)
		assert.Greater(t, time.Since(died), short/4, "the session has timed out")
		assert.NotContains(t, anna.Log.String(), "ended the session")
		assert.Zero(t, j.told("^overlap"), j.log())
	})
}

// TestWillWaits freezes the watchdog, and then kills elector run: no other command starts while this one
// runs. Once the watchdog continues it kills the command, and the next one's starts at once.
func TestWillWaits(t *testing.T) {
	t.Parallel()
	j, anna, _ := duel(t, onEtcd(t), locks+ignores+forks+escapes+waits, 3)
	first := j.pids()
	watchdog := watchdogOf(t, first[0])
	// The kernel continues a stopped process that loses its parent, unless the new parent is of its session:
	// be that.
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	require.NoError(t, processes.Freeze(watchdog))
	defer syscall.Kill(watchdog, syscall.SIGKILL) // it has ended, unless this has failed
	anna.Signal(syscall.SIGKILL)
	anna.Says("a process has died")
	time.Sleep(3 * time.Second) // many times what the companion takes
	assert.Len(t, alive(first), 3)
	assert.Zero(t, j.told("^began .* ben"), "the command acts in the name of a process that is dead")
	require.NoError(t, syscall.Kill(watchdog, syscall.SIGCONT))
	j.await("^began .* ben", 1, 6)
	assert.Empty(t, alive(first))
	assert.Zero(t, j.told("^overlap"), j.log())
}

// TestWillAfterWatchdogKilled kills the watchdog, and later elector run. What the watchdog leaves is killed,
// but not the companion. As it was certain that the command was gone, the next one's command starts at once.
func TestWillAfterWatchdogKilled(t *testing.T) {
	t.Parallel()
	url := onEtcd(t)
	j := newJob(t)
	command := j.command(locks + heeds + forks + escapes + waits)
	anna := standAs(t, url, "anna", command)
	j.await("^began .* anna", 1, 3)
	companion := anna.companion()
	require.NoError(t, syscall.Kill(watchdogOf(t, j.pids()[0]), syscall.SIGKILL))
	j.await("^began .* anna", 2, 6)
	assert.Len(t, alive([]string{companion}), 1)
	assert.Len(t, alive(j.pids()), 3)
	standAs(t, url, "ben", command).Says("campaigning")
	anna.Signal(syscall.SIGKILL)
	j.await("^began .* ben", 1, 9)
	assert.Zero(t, j.told("^overlap"), j.log())
	assert.Len(t, pidOfCompanion.FindAllString(anna.Log.String(), -1), 1, "it had one all the time")
}

// TestWillTwice interrupts elector run twice: it ends at once with its command, and the seat is free at once.
func TestWillTwice(t *testing.T) {
	t.Parallel()
	j, anna, _ := duel(t, onEtcd(t), locks+ignores+forks+waits, 2)
	anna.begun(1)
	anna.Signal(syscall.SIGTERM)
	anna.Says("SIGTERM")
	anna.Insist(syscall.SIGTERM)
	j.await("^began .* ben", 1, 4)
	assert.Zero(t, j.told("^overlap"), j.log())
}

// TestAgent holds that an agent ends the session, even one that has begun after elector run.
func TestAgent(t *testing.T) {
	t.Parallel()
	url := onEtcd(t)
	j, socket := newJob(t), filepath.Join(t.TempDir(), "agent.sock")
	command := j.command(locks + ignores + forks + escapes + waits)
	anna := start(t, url, election, "--id", "anna", "--agent", socket, "--", command[0], command[1], command[2], command[3])
	j.await("^began .* anna", 1, 3)
	agent := commandtest.Start(t, "agent", "--socket", socket, "--backend", url)
	anna.Says("the agent ends its session")
	pid := anna.Cmd.Process.Pid
	assert.Len(t, childrenOf(t, pid), 1, "the watchdog, and no companion")
	standAs(t, url, "ben", command).Says("campaigning")
	anna.Signal(syscall.SIGKILL)
	j.await("^began .* ben", 1, 6)
	assert.Zero(t, j.told("^overlap"), j.log())
	agent.Says("ended the session of a dead process\" pid=" + strconv.Itoa(pid))
}

// TestAgentOfContainer kills an elector run that is process 1 of its process namespace: its watchdog and then
// the command die with it. So the agent, which is outside, waits for nobody's word.
func TestAgentOfContainer(t *testing.T) {
	t.Parallel()
	url := onEtcd(t)
	if out, err := exec.Command("unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("NO process namespace here, so this is not tried: unshare: %v %s", err, out)
	}
	j, socket := newJob(t), filepath.Join(t.TempDir(), "agent.sock")
	command := j.command(locks + "trap '' TERM\n" + forks + escapes + waits)
	agent := commandtest.Start(t, "agent", "--socket", socket, "--backend", url)
	agent.Says("the agent serves")
	contained := append([]string{"-Urpf", "--mount-proc", "--kill-child", os.Args[0], "run", url, election, "--id", "anna", "--agent", socket, "--"}, command...)
	anna := commandtest.New(t, "unshare", contained...)
	anna.Begin()
	j.await("^began .* anna", 1, 2)
	anna.Says("the agent ends its session")
	standAs(t, url, "ben", command).Says("campaigning")
	elector := childrenOf(t, anna.Cmd.Process.Pid)
	require.Len(t, elector, 1)
	pid := must.Get(strconv.Atoi(elector[0]))(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	j.await("^began .* ben", 1, 4)
	assert.Zero(t, j.told("^overlap"), j.log())
	agent.Says("ended the session of a dead process\" pid=" + elector[0])
}

// TestWatchdogKilledWithoutDescriptors kills the watchdog of an elector run that may open no more files, as
// with too many HTTP clients. It cannot see then what the watchdog has left, and waits until it can.
func TestWatchdogKilledWithoutDescriptors(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	command := j.command(locks + heeds + forks + escapes + waits)
	anna := standAs(t, "mem://", "anna", command)
	j.await("^began", 1, 3)
	first := j.pids()
	watchdog := watchdogOf(t, first[0])
	var was unix.Rlimit
	require.NoError(t, unix.Prlimit(anna.Cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was))
	none := unix.Rlimit{Cur: 0, Max: was.Max}
	require.NoError(t, unix.Prlimit(anna.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &none, nil))
	require.NoError(t, syscall.Kill(watchdog, syscall.SIGKILL))
	wait.For(t, "the group is gone", func() bool { return len(alive(first)) == 1 })
	time.Sleep(time.Second) // many times what it takes
	assert.NotContains(t, anna.Log.String(), "has killed the command", "some of it lives")
	require.NoError(t, unix.Prlimit(anna.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &was, nil))
	j.await("^began", 2, 6)
	assert.Empty(t, alive(first))
	assert.Zero(t, j.told("^overlap"), j.log())
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	tasks := must.Get(filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children"))(t)
	for _, task := range tasks {
		text := must.Get(os.ReadFile(task))(t)
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}
