package lastwill_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
)

var many = flag.Int("crowd", 60, "processes of TestReusedProcessIDs")

// isolated returns this program in a role, in a process namespace and with a /proc of its own. It skips
// the test if that is not allowed.
func isolated(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	servertest.Long(t, "a process namespace of its own")
	if out, err := exec.Command("unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("NO process namespace here, so this is not tried: unshare: %v %s", err, out)
	}
	exe := must.Get(os.Executable())(t)
	c := exec.Command("unshare", "-Urpf", "--mount-proc", "--kill-child", exe)
	c.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	c.Stderr = os.Stderr
	return c
}

// When thousands of processes reuse a few numbers beside living processes, the sessions of all dead
// processes are ended, each once, and no session of a living one.
func TestReusedProcessIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := isolated(t, "crowd", ledgerVar+"="+w.ledger, agentVar+"="+t.TempDir()+"/agent", ttlVar+"=1h", manyVar+"="+strconv.Itoa(*many))
	out, err := c.Output()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	require.True(t, strings.HasPrefix(last, "ok"), "%s", out)
	t.Log(last)
}

// crowd is process 1 of a namespace with the agent and the processes.
func crowd() {
	self := os.Args[0]
	var inputs []io.Closer // otherwise the collector would close them, and the agent ends with its input
	defer func() { runtime.KeepAlive(inputs) }()
	run := func(role, name string) (*exec.Cmd, *bufio.Scanner) {
		c := exec.Command(self, "an argument")
		c.Env = append(os.Environ(), roleVar+"="+role, nameVar+"="+name)
		in, err := c.StdinPipe()
		check(err)
		inputs = append(inputs, in)
		out, err := c.StdoutPipe()
		check(err)
		check(c.Start())
		if role == "candidate" {
			_, err = fmt.Fprint(in, "event\nopen\n")
			check(err)
		}
		return c, bufio.NewScanner(out)
	}
	agent, says := run("agent", "")
	defer runtime.KeepAlive(agent) // it ends with the pipe to it
	says.Scan()
	var living []*exec.Cmd
	var theirs []string
	for i := range 10 {
		c, says := run("candidate", fmt.Sprintf("living-%d-", i))
		says.Scan()
		if !strings.HasPrefix(says.Text(), "ready") {
			check(fmt.Errorf("a candidate: %s", says.Text()))
		}
		says.Scan()
		living, theirs = append(living, c), append(theirs, says.Text())
	}
	total, err := strconv.Atoi(os.Getenv(manyVar))
	check(err)
	var mu sync.Mutex
	ids := make(map[int]int) // how often a process had it
	var dead []string
	var all sync.WaitGroup
	turns := make(chan struct{}, 4)
	for i := range total {
		turns <- struct{}{}
		// The next process gets the first free number from here on.
		check(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("300"), 0))
		c, says := run("doomed", fmt.Sprintf("doomed-%d-", i))
		all.Go(func() {
			says.Scan()
			id := says.Text()
			_ = c.Wait() // it was killed
			mu.Lock()
			defer mu.Unlock()
			ids[c.Process.Pid]++
			dead = append(dead, id)
			<-turns
		})
	}
	all.Wait()
	settle := func(want []string) {
		slices.Sort(want)
		for deadline := time.Now().Add(wait.Patience); ; time.Sleep(10 * time.Millisecond) {
			ended, err := endedBy(os.Getenv(ledgerVar))
			check(err)
			slices.Sort(ended)
			if slices.Equal(ended, want) {
				return
			}
			for _, id := range theirs {
				if slices.Contains(ended, id) && !slices.Contains(want, id) {
					check(fmt.Errorf("the session %s of a process that lives was ended", id))
				}
			}
			if time.Now().After(deadline) {
				check(fmt.Errorf("ended: %d %v\nwant: %d %v", len(ended), ended, len(want), want))
			}
		}
	}
	settle(dead)
	for _, c := range living {
		check(c.Process.Kill())
	}
	settle(append(dead, theirs...))
	fmt.Printf("ok: %d processes died, which had %d numbers, beside %d that lived\n", total, len(ids), len(living))
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// doomed is a process that opens a session and is killed at once.
func doomed() {
	ready := make(chan struct{}, 1)
	b, err := lastwill.Start(openService, lastwill.Options{Agent: os.Getenv(agentVar), Logger: slog.New(slog.DiscardHandler),
		OnEvent: func(e lastwill.Event) {
			if e.Kind == lastwill.Ready {
				ready <- struct{}{}
			}
		}})
	check(err)
	<-ready
	s, err := b.Open(context.Background(), backend.OpenOptions{})
	check(err)
	fmt.Println(s.ID())
	check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

// An agent that is killed, ended and started again while processes come and die ends no session of a
// living process, and all sessions of dead processes that had found it again.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	living, alive := []*process{}, []string{}
	for range 5 {
		p, _ := w.candidate()
		living, alive = append(living, p), append(alive, p.do("open"))
	}
	check := func() {
		for _, id := range w.ended() {
			require.NotContains(t, alive, id, "the process lives")
		}
	}
	for round := range 5 {
		between := []*process{}
		for range 2 {
			p, _ := w.candidate()
			p.do("open")
			between = append(between, p)
		}
		agent := w.served
		switch round % 3 {
		case 0:
			agent.kill()
		case 1: // it ends by itself
			require.NoError(t, agent.in.Close())
			require.Equal(t, "<nil>", agent.answer())
		case 2: // a second agent runs
			stop(t, agent.cmd.Process.Pid)
			defer signal(t, agent.cmd.Process.Pid, syscall.SIGCONT)
			for _, p := range slices.Concat(between, living) {
				require.Equal(t, "1", p.do("cut"))
			}
		}
		between[0].kill()
		w.serveAgain()
		for _, p := range append(living, between[1]) {
			p.ready()
		}
		check()
		between[1].kill()
		id := fmt.Sprintf("%d.1", between[1].cmd.Process.Pid)
		wait.For(w.t, "its session is ended", func() bool { return slices.Contains(w.ended(), id) })
	}
	check()
	for _, p := range living {
		p.kill()
	}
	wait.For(w.t, "all are ended", func() bool {
		ended := w.ended()
		return !slices.ContainsFunc(alive, func(id string) bool { return !slices.Contains(ended, id) })
	})
}

// Start refuses in process 1 of a container, because the companion would die with it.
func TestProcessOne(t *testing.T) {
	t.Parallel()
	assert.Contains(t, string(must.Get(isolated(t, "candidate", ledgerVar+"=/dev/null").Output())(t)), "process 1 of its container")
}

// optional is a process that can have no companion, and continues without one.
func optional() {
	b, err := lastwill.Start(openService, lastwill.Options{Optional: true})
	check(err)
	began := time.Now()
	for range 20 {
		_, err := b.Open(context.Background(), backend.OpenOptions{})
		check(err)
	}
	h, err := b.Hold()
	check(err)
	check(errors.Join(h.Release(), b.Close(), b.Close()))
	fmt.Println(time.Since(began) < 20*time.Second)
}

// Without a companion, no Open waits for one.
func TestOptional(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "true\n", string(must.Get(isolated(t, "optional").Output())(t)))
}

// An agent in another process namespace does not see who connects, and says so.
func TestProcessThatTheAgentDoesNotSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = t.TempDir() + "/agent"
	c := isolated(t, "agent", ledgerVar+"="+w.ledger, agentVar+"="+w.agent)
	in := must.Get(c.StdinPipe())(t)
	out := must.Get(c.StdoutPipe())(t)
	c.Stderr = nil
	require.NoError(t, c.Start())
	defer func() { _ = in.Close(); _ = c.Wait() }()
	ok := bufio.NewScanner(out)
	require.True(t, ok.Scan())
	require.Equal(t, "ok", ok.Text())
	p := w.start("candidate")
	assert.Contains(t, p.do("event"), "does not see")
}
