package lastwill_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	processes "github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
)

// each runs a test with a companion and with an agent.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("companion", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t))
	})
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.serve()
		test(t, w)
	})
}

func (w *world) serve() {
	w.t.Helper()
	w.agent = w.t.TempDir() + "/agent"
	w.serveAgain()
}

func (w *world) serveAgain() {
	w.t.Helper()
	a := w.start("agent")
	require.Equal(w.t, "ok", a.answer())
	w.served = a
}

// accompanied starts a process, and returns the process and its companion or the agent.
func (w *world) accompanied() (p *process, companion int) {
	w.t.Helper()
	p, companion = w.candidate()
	if w.agent != "" {
		companion = w.served.cmd.Process.Pid
	}
	return p, companion
}

// executor returns the process whose log has the end of p's sessions: p itself or the agent, because a
// companion logs to its process's log.
func (p *process) executor() *process {
	if p.served != nil {
		return p.served
	}
	return p
}

func TestEachDeath(t *testing.T) {
	for name, die := range map[string]func(p *process){
		"kill -9": func(p *process) { p.kill() },
		"SIGTERM": func(p *process) { signal(p.t, p.cmd.Process.Pid, syscall.SIGTERM) },
		"exit":    func(p *process) { p.tell("exit") },
		"panic":   func(p *process) { p.tell("panic") },
		"SIGKILL of itself, one instruction after Open": func(p *process) { p.tell("open-and-die") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				p, companion := w.candidate()
				ids := []string{p.do("open"), p.do("open")}
				if strings.Contains(name, "itself") {
					ids = append(ids, fmt.Sprintf("%d.3", p.cmd.Process.Pid))
				}
				assert.Empty(t, w.ended())
				die(p)
				w.awaitEnded(ids...)
				if w.agent == "" {
					wait.For(w.t, "the companion has ended, too", func() bool { return processes.Ended(companion) })
				}
			})
		})
	}
}

// A process that crashes as soon as it leads already has a companion: the first Open waits for it.
func TestDiesWithItsFirstSession(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.start("candidate")
		p.tell("open-and-die")
		w.awaitEnded(fmt.Sprintf("%d.1", p.cmd.Process.Pid))
	})
}

// No session is ended while its process lives, in any of these cases, and all are ended once it is dead.
// befalls returns the sessions that were opened meanwhile.
func TestIsNotDead(t *testing.T) {
	const brief = time.Second // a session's timeout: the waits take longer
	for name, c := range map[string]struct {
		ttl     time.Duration // 0: long
		befalls func(w *world, p *process, companion int) (more []string)
	}{
		"it is stopped": {brief, func(w *world, p *process, _ int) []string {
			stop(w.t, p.cmd.Process.Pid)
			time.Sleep(3 * brief)
			assert.Empty(w.t, w.ended())
			signal(w.t, p.cmd.Process.Pid, syscall.SIGCONT)
			return []string{p.do("open")}
		}},
		"both are frozen": {brief, func(w *world, p *process, companion int) []string {
			for _, first := range []int{companion, p.cmd.Process.Pid} {
				stop(w.t, p.cmd.Process.Pid)
				stop(w.t, companion)
				time.Sleep(2 * brief)
				signal(w.t, first, syscall.SIGCONT)
				time.Sleep(2 * brief)
				signal(w.t, companion, syscall.SIGCONT)
				signal(w.t, p.cmd.Process.Pid, syscall.SIGCONT)
			}
			return []string{p.do("open")}
		}},
		// The process lives on, although it has lost its connection.
		"it executes another program": {brief, func(w *world, p *process, companion int) []string {
			p.do("exec")
			wait.For(w.t, "another program runs", func() bool { return program(p.cmd.Process.Pid) == "sleep" })
			time.Sleep(500 * time.Millisecond)
			assert.False(w.t, processes.Ended(companion), "the companion waits for the death")
			return nil
		}},
		"its connection is closed": {0, func(w *world, p *process, _ int) []string {
			for range 3 {
				require.Equal(w.t, "1", p.do("cut"))
				assert.True(w.t, strings.HasPrefix(p.do("event"), "lost"))
				p.ready()
			}
			return nil
		}},
		"a child that outlives it is another process": {0, func(w *world, p *process, _ int) []string {
			pid := must.Get(strconv.Atoi(p.do("fork")))(w.t)
			w.t.Cleanup(func() {
				assert.False(w.t, processes.Ended(pid))
				_ = syscall.Kill(pid, syscall.SIGKILL)
			})
			return nil
		}},
		"holds that are released": {0, func(w *world, p *process, _ int) []string {
			p.do("hold true")
			p.do("hold true")
			require.Equal(w.t, "ok", p.do("release"))
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.ttl = cmp.Or(c.ttl, w.ttl)
				p, companion := w.accompanied()
				ids := []string{p.do("open")}
				ids = append(ids, c.befalls(w, p, companion)...)
				assert.Empty(t, w.ended())
				p.kill()
				w.awaitEnded(ids...)
			})
		})
	}
}

func TestCloseForgets(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, companion := w.candidate()
		closed, kept := p.do("open"), p.do("open")
		require.Equal(t, "<nil>", p.do("close "+closed))
		p.kill()
		w.awaitEnded(kept)

		p, companion = w.candidate()
		require.Equal(t, "<nil>", p.do("close "+p.do("open")))
		require.Equal(t, "<nil>", p.do("end"))
		if w.agent == "" {
			wait.For(w.t, "the companion has ended", func() bool { return processes.Ended(companion) })
		}
		p.kill()
		// What was not closed, or not successfully, is ended as usual.
		last, _ := w.candidate()
		id := last.do("open")
		require.Equal(t, "<nil>", last.do("end"))
		last.kill()
		w.awaitEnded(kept, id)
	})
}

// A companion that stays after Close leaves no zombie, so that a process can Start and Close for ever.
func TestCloseLeavesNoZombie(t *testing.T) {
	t.Parallel()
	p, companion := newWorld(t).candidate()
	p.do("open")
	require.Equal(t, "<nil>", p.do("end"))
	require.False(t, processes.Ended(companion), "it has a session left")
	signal(t, companion, syscall.SIGKILL)
	wait.For(p.t, "somebody has waited for it", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", companion))
		return errors.Is(err, os.ErrNotExist)
	})
}

// A companion that dies costs nothing: another one is sent everything.
func TestCompanionKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, companion := w.candidate()
	ids := []string{p.do("open"), p.do("open")}
	require.Equal(t, "<nil>", p.do("close "+ids[0]))
	for range 3 {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
			signal(t, companion, s) // it ignores them
		}
		signal(t, companion, syscall.SIGKILL)
		lost := p.do("event")
		assert.True(t, strings.HasPrefix(lost, fmt.Sprintf("lost %d", companion)), lost)
		old := companion
		companion = p.ready()
		assert.NotEqual(t, old, companion)
		ids = append(ids, p.do("open"))
	}
	assert.Empty(t, w.ended())
	p.kill()
	w.awaitEnded(ids[1:]...)
	wait.For(w.t, "the companion has ended", func() bool { return processes.Ended(companion) })
	assert.Len(t, w.ended(), len(ids)-1, "each was ended once")
}

// If a process is killed with its companion, nothing happens, and nothing is left.
func TestCompanionKilledBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, companion := w.candidate()
	p.do("open")
	stop(t, p.cmd.Process.Pid)
	signal(t, companion, syscall.SIGKILL)
	wait.For(w.t, "the companion has ended", func() bool { return processes.Ended(companion) })
	p.kill()
	q, _ := w.candidate()
	id := q.do("open")
	q.kill()
	w.awaitEnded(id)
}

func TestFrozenCompanion(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, companion := w.accompanied()
		ids := []string{p.do("open")}
		stop(t, companion)
		ids = append(ids, p.do("open")) // in the socket
		p.kill()
		time.Sleep(200 * time.Millisecond)
		assert.Empty(t, w.ended())
		signal(t, companion, syscall.SIGCONT)
		w.awaitEnded(ids...)
	})
}

// A companion that is frozen for good is ended as soon as the kernel's buffer is full. Nobody waits long
// for it.
func TestFrozenCompanionIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, companion := w.candidate()
	stop(t, companion)
	var ids []string
	wait.For(w.t, "the frozen companion has ended", func() bool {
		ids = append(ids, p.do("open"))
		return processes.Ended(companion)
	})
	t.Logf("%d sessions opened meanwhile", len(ids))
	p.ready()
	p.kill()
	w.awaitEnded(ids...)
}

// A frozen agent is not ended: nobody waits long for it, and afterwards it does what it was sent.
func TestFrozenAgentIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	p, _ := w.candidate()
	stop(t, w.served.cmd.Process.Pid)
	var ids []string
	wait.For(w.t, "the process gives it up", func() bool {
		ids = append(ids, p.do("open"))
		return p.log.Has("does not listen")
	})
	p.kill()
	signal(t, w.served.cmd.Process.Pid, syscall.SIGCONT)
	wait.For(w.t, "it has ended what it was told: as much as the kernel keeps", func() bool { return len(w.ended()) >= 100 })
	assert.Subset(t, ids, w.ended())
}

// A program whose companion does not reach Start continues without one.
func TestStartNotReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start("silent")
	for range 4 {
		assert.Contains(t, p.do("event"), "at the top of main")
	}
	assert.True(t, strings.HasPrefix(p.do("event"), "given up"))
	id := p.do("open")
	assert.Equal(t, "<nil>", p.do("close "+id))
	assert.Equal(t, "<nil>", p.do("end"))
}

// A companion takes part in nothing: a program that campaigns before Start fails there.
func TestOpenBeforeStart(t *testing.T) {
	t.Parallel()
	p := newWorld(t).start("early")
	assert.Contains(t, p.do("event"), "at the top of main, with any arguments, and wait for nothing before it: it has ended")
	p.logs("toy: open: this process is the companion of another one")
}

// ranVar is the file in which TestUnderTest notes that it runs.
const ranVar = "LASTWILL_TEST_RAN"

// A companion starts like its process: with the same arguments, and in the directory in which main opens
// files by relative paths. If that is gone, it starts in the process's current directory.
func TestStartsAsItsProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir = t.TempDir()
	p, pid := w.candidate()
	where := func(pid int) string {
		t.Helper()
		return must.Get(os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)))(t)
	}
	assert.Equal(t, strings.Join(p.cmd.Args, "\x00")+"\x00", string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)))(t)))
	require.Equal(t, "<nil>", p.do("chdir /"))
	for _, want := range []string{w.dir, "/"} {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		pid = p.ready()
		assert.Equal(t, want, where(pid))
		require.NoError(t, os.RemoveAll(w.dir))
	}
}

// The companion of a test binary runs no test a second time, in whichever way the binary was started.
func TestStartInATest(t *testing.T) {
	t.Parallel()
	exe := must.Get(os.Executable())(t)
	for role, args := range map[string][]string{"": {"-test.run=^TestUnderTest$", "-test.count=1"}, "bare": nil} {
		ran := filepath.Join(t.TempDir(), "ran")
		test := exec.Command(exe, args...)
		test.Env = append(os.Environ(), ranVar+"="+ran, roleVar+"="+role)
		said, err := test.CombinedOutput()
		require.NoError(t, err, string(said))
		assert.Equal(t, "ran\n", string(must.Get(os.ReadFile(ran))(t)), string(said))
	}
}

// TestUnderTest is the test that TestStartInATest runs.
func TestUnderTest(t *testing.T) {
	ran := os.Getenv(ranVar)
	if ran == "" {
		return
	}
	f := must.Get(os.OpenFile(ran, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	_, err := fmt.Fprintln(f, "ran")
	require.NoError(t, errors.Join(err, f.Close()))
	events := make(chan lastwill.Event, 10)
	b := must.Get(lastwill.Start(openService, lastwill.Options{OnEvent: func(e lastwill.Event) { events <- e }}))(t)
	for e := range events {
		if e.Kind != lastwill.Lost { // Ready: the companion runs this
			break
		}
	}
	require.NoError(t, b.Close())
}

// A companion that waits for something before Start is ended, and ends by itself when its process is dead:
// it never becomes a second process.
func TestStuckBeforeStart(t *testing.T) {
	t.Parallel()
	servertest.Long(t, "twice the ten seconds that a companion has to begin")
	w := newWorld(t)
	for _, dead := range []bool{false, true} {
		p := w.start("stuck")
		var companion int
		wait.For(w.t, "it is stuck", func() bool {
			_, said, _ := strings.Cut(p.log.String(), "stuck ")
			n, _ := fmt.Sscanf(said, "%d.", &companion)
			return n == 1
		})
		if dead {
			p.kill()
		} else {
			assert.Contains(t, p.do("event"), "at the top of main")
		}
		wait.For(w.t, "it has ended", func() bool { return processes.Ended(companion) })
	}
}

func TestServiceThatIsDown(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, _ := w.candidate()
		id := p.do("open")
		down := w.switchTo("down")
		p.kill()
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, os.Remove(down))
		w.awaitEnded(id)
	})
}

// An Opener that never returns, against its contract, keeps a companion no longer than the service has the
// sessions.
func TestOpenerThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ttl = time.Second
	p := w.start("hanging")
	companion := p.ready()
	p.do("open")
	p.do("open")
	p.kill()
	wait.For(w.t, "it has ended", func() bool { return processes.Ended(companion) })
	p.logs("cannot end the session of a dead process: it times out")
}

// The companion tries no longer than the service has the session.
func TestServiceThatStaysDown(t *testing.T) {
	for _, why := range []string{"down", "deny"} {
		t.Run(why, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.ttl = 200 * time.Millisecond
				if why == "deny" {
					w.ttl = time.Hour
				}
				p, companion := w.candidate()
				p.do("open")
				w.switchTo(why)
				p.kill()
				p.executor().logs("cannot end the session of a dead process")
				if w.agent == "" {
					wait.For(w.t, "the companion has ended", func() bool { return processes.Ended(companion) })
				}
				assert.Empty(t, w.ended())
			})
		})
	}
}

// While it tries on, it says why.
func TestServiceThatIsSlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ttl = 5 * time.Second
	p, _ := w.candidate()
	p.do("open")
	w.switchTo("slow")
	p.kill()
	p.logs("trying on")
	p.logs("one is away") // on a slow machine not before it gives up
}

func TestHold(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, _ := w.candidate()
		id := p.do("open")
		word := t.TempDir() + "/word"
		late := t.TempDir() + "/late"
		// This hold is released, and its child speaks again later: that opens no other hold.
		p.do("hold until [ -e " + late + " ]; do sleep 0.01; done; printf '\\0' >&3; rm " + late)
		p.do("release")
		p.do("hold until [ -e " + word + " ]; do sleep 0.01; done; printf '\\0' >&3")
		p.do("hold printf '\\0' >&3")
		p.kill()
		require.NoError(t, os.WriteFile(late, nil, 0o600))
		wait.For(w.t, "the late word is said", func() bool { _, err := os.Stat(late); return err != nil })
		time.Sleep(300 * time.Millisecond)
		assert.Empty(t, w.ended())
		require.NoError(t, os.WriteFile(word, nil, 0o600))
		w.awaitEnded(id)
	})
}

// A child that ends without a word may have left anything behind.
func TestHoldWithoutAWord(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ttl = 200 * time.Millisecond
		p, companion := w.candidate()
		p.do("open")
		if w.agent == "" { // what another companion is sent
			signal(t, companion, syscall.SIGKILL)
			p.ready()
		}
		p.do("hold exit 1")
		p.kill()
		p.executor().logs("a child of a dead process has not said")
		assert.Empty(t, w.ended())
	})
}

// While nothing happens, the companion has no connection except that to its process, and does not run.
func TestIdle(t *testing.T) {
	t.Parallel()
	servertest.Long(t, "ten seconds in which nothing happens")
	w := newWorld(t)
	p, companion := w.candidate()
	p.do("open")
	wait.For(t, "it does not run for ten seconds", func() bool { // once it has begun
		before := switches(t, companion)
		time.Sleep(10 * time.Second)
		return switches(t, companion)-before <= 5 // Go's monitor wakes once a minute
	})
	sockets := slices.DeleteFunc(descriptors(t, companion), func(to string) bool { return !strings.HasPrefix(to, "socket:") })
	assert.Len(t, sockets, 1)
	assert.Equal(t, "lastwill", program(companion), "it has a name of its own in a list of processes")
}

// switches returns how often the threads of a process have waited for something.
func switches(t *testing.T, pid int) (all int) {
	t.Helper()
	stats := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)))(t)
	for _, path := range stats {
		text := must.Get(os.ReadFile(path))(t)
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var n int
		must.Get(fmt.Sscan(after, &n))(t)
		all += n
	}
	return all
}

// Descriptors that the process was started with are closed in the companion: a wait for the end of a pipe
// does not wait for the companion.
func TestNothingInheritedStaysOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	w.files = []*os.File{nil, nil, theirs} // number 5: the companion's own is 3
	p, companion := w.candidate()
	require.NoError(t, theirs.Close())
	pipe, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/5", p.cmd.Process.Pid))
	require.NoError(t, err, "the process has it")
	require.NotContains(t, descriptors(t, companion), pipe)
}
