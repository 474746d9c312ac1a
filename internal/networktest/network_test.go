//go:build unix

package networktest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(talkerEnv); how != "" {
		talk(how)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// talkerEnv makes the test binary one side of a connection, see talk.
const talkerEnv = "NETWORKTEST_TALKER"

// talk listens on an address or dials it. It prints when there is a connection and whenever something
// arrives on it, sends all the time, and prints when the connection is over.
func talk(how string) {
	role, addr, _ := strings.Cut(how, " ")
	if role == "network" {
		w, err := New(1)
		if err == nil {
			fmt.Println("made", w.hosts[0].Netns)
			time.Sleep(time.Minute)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	var conn net.Conn
	var err error
	switch role {
	case "meet": // by datagrams, none of which is acknowledged
		own, other, _ := strings.Cut(addr, " ")
		var d net.Dialer
		if d.LocalAddr, err = net.ResolveUDPAddr("udp4", own); err == nil {
			conn, err = d.Dial("udp4", other)
		}
	case "listen":
		var l net.Listener
		if l, err = net.Listen("tcp4", addr); err == nil {
			fmt.Println("listens")
			conn, err = l.Accept()
		}
	default:
		conn, err = net.Dial("tcp4", addr)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("connected")
	go func() {
		for {
			_, _ = conn.Write([]byte("x")) // Read reports the end
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for b := make([]byte, 100); err == nil || role == "meet"; { // the other side may not exist yet
		if _, err = conn.Read(b); err == nil {
			fmt.Println("heard")
		}
	}
	fmt.Println("over:", err)
	time.Sleep(time.Minute)
}

// talker is one side of a connection, a process on a host.
type talker struct {
	t *testing.T
	*process.Process
}

func startTalker(t *testing.T, at Site, how string) talker {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return talker{t, process.ForTest(t, process.Spec{
		Name: "talker", Path: self, Env: []string{talkerEnv + "=" + how}, Netns: at.Netns,
		LogPath: filepath.Join(t.TempDir(), "log"),
	})}
}

func (x talker) said(what string) int { return strings.Count(x.LogTail(1<<20), what) }

func (x talker) mustSay(what string) {
	x.t.Helper()
	wait.For(x.t, what, func() bool { return x.said(what) > 0 })
}

func (x talker) mustHear() {
	x.t.Helper()
	before := x.said("heard")
	wait.For(x.t, "something is heard", func() bool { return x.said("heard") > before })
}

// mustHearNothing waits until packets on their way have arrived, and then for a second without any.
func (x talker) mustHearNothing() {
	x.t.Helper()
	wait.For(x.t, "nothing is heard through a silent drop", func() bool {
		before := x.said("heard")
		time.Sleep(time.Second)
		return x.said("heard") == before
	})
	require.Zero(x.t, x.said("over"), "the connection is over, and was to be silent")
}

// startPair connects the first host and another.
func startPair(t *testing.T, w *Network, to int) (dials, listens talker) {
	t.Helper()
	addr := w.hosts[to].Addr(2000)
	listens = startTalker(t, w.hosts[to], "listen "+addr)
	listens.mustSay("listens")
	dials = startTalker(t, w.hosts[0], "dial "+addr)
	dials.mustSay("connected")
	listens.mustHear()
	dials.mustHear()
	return dials, listens
}

func TestNetworkDropsOneWay(t *testing.T) {
	t.Parallel() // it mostly waits
	w := ForTest(t, 2)
	one, two := w.hosts[0].Addr(2000), w.hosts[1].Addr(2000)
	a := startTalker(t, w.hosts[0], "meet "+one+" "+two)
	b := startTalker(t, w.hosts[1], "meet "+two+" "+one)
	a.mustHear()
	b.mustHear()
	require.NoError(t, w.Drop(0, 1))
	b.mustHearNothing()
	a.mustHear()
	require.NoError(t, w.Heal())
	b.mustHear()
	require.NoError(t, w.Drop(1, 0))
	a.mustHearNothing()
	b.mustHear()
}

func TestNetworkDropsAndHeals(t *testing.T) {
	t.Parallel() // it mostly waits
	w := ForTest(t, 3)
	a, b := startPair(t, w, 1)
	c, d := startPair(t, w, 2)

	require.NoError(t, w.Drop(0, 1))
	require.NoError(t, w.Drop(0, 1))
	b.mustHearNothing()
	c.mustHear()
	d.mustHear()
	require.NoError(t, w.Cut(0, 1))
	a.mustHearNothing()
	b.mustHearNothing()
	c.mustHear()
	require.NoError(t, w.Heal())
	a.mustHear() // late
	b.mustHear()

	require.NoError(t, w.CutOff(0))
	for _, x := range []talker{a, b, c, d} {
		x.mustHearNothing()
	}
	require.NoError(t, w.Mend(2, 0))
	c.mustHear()
	a.mustHearNothing()
	require.NoError(t, w.Rejoin(0))
	a.mustHear()
}

func TestNetworkResets(t *testing.T) {
	t.Parallel() // it mostly waits
	w := ForTest(t, 3)
	a, b := startPair(t, w, 1)
	c, d := startPair(t, w, 2)
	require.NoError(t, w.Reset(0, 1))
	a.mustSay("over")
	b.mustSay("over")
	c.mustHear()
	d.mustHear()

	require.NoError(t, w.Cut(0, 2))
	require.NoError(t, w.Reset(2, 0))
	d.mustSay("over")
	c.mustHearNothing()
	require.NoError(t, w.Reset(0, 2))
	c.mustSay("over")
}

func TestNetworkLeavesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	w := ForTest(t, 2)
	x, _ := startPair(t, w, 1)
	require.NoError(t, w.Drop(0, 1))
	require.Len(t, names(t, w), 4)
	pid := x.PID()
	require.NoError(t, w.block.remove())
	require.Empty(t, names(t, w))
	wait.For(t, "the process on the host is gone", func() bool { return process.Gone(pid) })
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.Empty(t, names(t, w))
	require.ErrorIs(t, w.Drop(0, 1), ErrClosed)
}

// A network that a killed process has left is removed by the next process.
func TestNetworkOfTheDead(t *testing.T) {
	t.Parallel() // it mostly waits
	ForTest(t, 1)
	x := startTalker(t, Local, "network")
	x.mustSay("made")
	_, name, _ := strings.Cut(strings.TrimSpace(x.LogTail(100)), " ")
	there := func() bool {
		names := must.Get(netnsNames())(t)
		return slices.Contains(names, name)
	}
	require.True(t, there(), "no %s", name)
	require.NoError(t, x.Kill())
	require.NoError(t, sweep())
	// Another process may have taken its lock first and be about to remove it.
	wait.For(t, "it is removed", func() bool { return !there() })
}

func names(t *testing.T, w *Network) []string {
	t.Helper()
	return must.Get(w.Names())(t)
}
