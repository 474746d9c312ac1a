package lastwill_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/internal/must"
	processes "github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
)

// A child that says more than a word, or the wrong word, speaks for no other child.
func TestHoldsOfOtherChildrenStand(t *testing.T) {
	for name, says := range map[string]string{
		"two words":          `printf '\0\0' >&3`,
		"many words":         `printf '\0\0\0\0\0\0\0' >&3`,
		"a text":             `echo done >&3`,
		"emptied by a shell": `printf '\0' >/dev/fd/3`,
		"emptied":            `true >/dev/fd/3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p, companion := w.candidate()
			p.do("open")
			defer signal(t, companion, syscall.SIGKILL) // it waits for the hold whose child said nothing
			said, word := t.TempDir()+"/said", t.TempDir()+"/word"
			p.do("hold until [ -e " + said + ".go ]; do sleep 0.01; done; " + says + "; touch " + said)
			p.do("hold until [ -e " + word + " ]; do sleep 0.01; done; printf '\\0' >&3; touch " + word + ".said")
			require.NoError(t, os.WriteFile(said+".go", nil, 0o600))
			wait.For(w.t, "it is said", func() bool { _, err := os.Stat(said); return err == nil })
			p.kill()
			time.Sleep(500 * time.Millisecond)
			assert.Empty(t, w.ended(), "a child of the process acts")
			require.NoError(t, os.WriteFile(word, nil, 0o600))
			wait.For(w.t, "the other's word is said", func() bool { _, err := os.Stat(word + ".said"); return err == nil })
		})
	}
}

// The agent does not wait for a process that leaves without a word and has sent no will.
func TestAgentForgetsWhoLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	agent := w.served.cmd.Process.Pid
	before := len(descriptors(t, agent))
	self, gate := pidfd(t, os.Getpid(), 0), memory(t)
	for i := range 300 {
		conn := welcomed(t, w.agent, strings.Replace(hello, "a stranger", fmt.Sprint("stranger ", i), 1), self, gate)
		if i == 0 {
			say(t, conn, tell) // of a session that may exist for two hours
		}
		require.NoError(t, conn.Close())
	}
	wait.For(w.t, "it keeps nothing of them", func() bool { return len(descriptors(t, agent)) <= before+5 })
	assert.Empty(t, w.ended())
}

// An agent that reads slowly delays nobody who opens a session, even if there is much to send.
func TestSlowAgent(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/agent"
	b := must.Get(lastwill.Start(openService, lastwill.Options{Agent: path, Logger: slog.New(slog.DiscardHandler)}))(t)
	const waiting = 5000
	for range waiting {
		opened(t, b)
	}
	told, read := listenAt(t, path), new(atomic.Int64)
	next(t, told)
	go func() {
		for said := range told {
			if said == "closed" {
				return
			}
			read.Add(1)
			time.Sleep(2 * time.Millisecond) // ten seconds in total
		}
	}()
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		opened(t, b)
	}
	assert.Less(t, read.Load(), int64(waiting), "they have waited until it had read what was there before them")
	require.NoError(t, b.Close())
}

// Opening a session takes no longer the more sessions there are, and lost sessions leave nothing behind.
func TestManySessions(t *testing.T) {
	t.Parallel()
	path, told := listener(t)
	b := started(t, &service{}, path)
	count := make(chan int, 1)
	go func() {
		kept := 0
		for m := range told {
			switch {
			case strings.HasPrefix(m, "tell"):
				kept++
			case strings.HasPrefix(m, "forget"):
				kept--
			case m == "bye ":
				count <- kept
				return
			}
		}
	}()
	const crowd = 20000
	evenly(t, crowd, func() { opened(t, b).Driver().(*session).lose(time.Hour) })
	require.NoError(t, b.Close())
	assert.Less(t, wait.Receive(t, "somebody says bye", count), 1000)

	b = must.Get(lastwill.Start(openService, lastwill.Options{Agent: path + "-nobody", Logger: slog.New(slog.DiscardHandler)}))(t)
	evenly(t, crowd, func() { opened(t, b) })
	require.NoError(t, b.Close())
}

// evenly checks that doing something often takes about as long at the end as at the beginning. With a look
// at all sessions each time, it would take hundreds of times as long. It compares the processor time of
// the fastest of twenty parts at each end, because the machine has other work, too.
func evenly(t *testing.T, times int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
		return time.Duration(now.Nano())
	}
	var parts []time.Duration
	for range 200 {
		began := spent()
		for range times / 200 {
			do()
		}
		parts = append(parts, spent()-began)
	}
	first, last := slices.Min(parts[:20]), slices.Min(parts[180:])
	t.Logf("%d took %v at first, and %v at last", times/200, first, last)
	assert.Less(t, last, 8*first)
}

// Another user who is at the path before the agent, for example in /tmp, is sent nothing.
func TestAgentOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT as root, so there is no other user, and this is not tried")
	}
	path := t.TempDir() + "/agent"
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	runtime.LockOSThread()
	setuid := func(uid uintptr) {
		_, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)) // of this thread alone
		require.Zero(t, err)
	}
	setuid(65534)
	err := unix.Listen(fd, 10)
	setuid(0)
	runtime.UnlockOSThread()
	require.NoError(t, err)
	lost := make(chan lastwill.Event, 100)
	b := must.Get(lastwill.Start(openService, lastwill.Options{Agent: path, OnEvent: func(e lastwill.Event) { lost <- e }}))(t)
	defer b.Close()
	assert.ErrorContains(t, wait.Receive(t, "an event", lost).Err, "is of user 65534")
	conn := must.First(unix.Accept(fd))(t)
	defer unix.Close(conn)
	var packet [1 << 10]byte
	n, _ := unix.Read(conn, packet[:])
	assert.LessOrEqual(t, n, 0, "it was told something")
}

// A process that has given up the right to kill its companion does not wait for a frozen one.
func TestCompanionOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT as root, so there is no other user, and this is not tried")
	}
	t.Parallel()
	p, companion := newWorld(t).candidate()
	require.Equal(t, "<nil>", p.do("setuid 65534"))
	stop(t, companion)
	require.Equal(t, "<nil>", p.do("end"))
	signal(t, companion, syscall.SIGCONT)
	wait.For(p.t, "it has ended", func() bool { return processes.Ended(companion) })
}

// Sessions are ended at once even while nobody reads the log.
func TestNobodyReadsTheLog(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, _ := w.candidate()
		id := p.do("open")
		writer := p.executor()
		writer.log.Lock() // readers wait
		defer writer.log.Unlock()
		fd := must.Get(unix.Open(fmt.Sprintf("/proc/%d/fd/2", writer.cmd.Process.Pid), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0))(t)
		var err error
		for err == nil {
			_, err = unix.Write(fd, []byte("."))
		}
		require.ErrorIs(t, err, unix.EAGAIN)
		require.NoError(t, unix.Close(fd))
		p.kill()
		w.awaitEnded(id)
	})
}

// An agent without free descriptors ends the sessions of the processes it knows once it has descriptors
// again, and then accepts others.
func TestAgentWithoutDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ttl = time.Hour
	w.serve()
	p, _ := w.candidate()
	id := p.do("open")
	agent := w.served.cmd.Process.Pid
	limit := unix.Rlimit{Cur: uint64(len(descriptors(t, agent)) + 10), Max: 1 << 10}
	require.NoError(t, unix.Prlimit(agent, unix.RLIMIT_NOFILE, &limit, nil))
	var all []*net.UnixConn
	for range 30 {
		all = append(all, stranger(t, w.agent))
	}
	w.served.logs("cannot take a process in")
	p.kill()
	for _, c := range all {
		require.NoError(t, c.Close())
	}
	w.awaitEnded(id)
	q, _ := w.candidate()
	other := q.do("open")
	q.kill()
	w.awaitEnded(id, other)
}
