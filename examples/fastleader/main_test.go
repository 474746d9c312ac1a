package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program builds what a reader of README.md runs, with the race detector if the test has it.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "fastleader")
	args := []string{"build", "-o", binary}
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// TestDemo has real processes elect over TCP, and is killed leaders by kill -9. The demonstration
// itself waits for what each scene is to show.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes five processes that elect by the clock: make test-all")
	}
	out, err := exec.Command(program(t), "demo").CombinedOutput()
	require.NoError(t, err, "%s", out)
	rest := string(out)
	for _, scene := range []struct {
		begins string
		shows  []string
	}{
		{"=== 1 and 2 start", nil},
		{"=== 3 starts: with it", []string{"3  LEADS: "}},
		{"=== 4 and 5 start", nil},
		{"=== 3, the leader: KILL -9", []string{"round 2: votes for 2", "  LEADS: "}},
		{"=== 3 starts again", nil},
		{"=== the leader: KILL -9", []string{"  LEADS: "}},
		{"=== the end", nil},
	} {
		_, after, found := strings.Cut(rest, scene.begins)
		require.True(t, found, "%q does not come next in:\n%s", scene.begins, out)
		for _, line := range scene.shows {
			assert.Contains(t, after, line, "after %q", scene.begins)
		}
		rest = after
	}
	before, _, _ := strings.Cut(string(out), "=== 3, the leader")
	assert.NotContains(t, before, "4  LEADS")
	assert.NotContains(t, before, "5  LEADS")
}

func TestBadFlags(t *testing.T) {
	binary := program(t)
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("a word"), 0o600))
	const peers = " -peers 1=127.0.0.1:1,2=127.0.0.1:2"
	for _, c := range []struct{ args, says string }{
		{"", "-peers is missing"},
		{"demo -id 3", `demo takes nothing after it, and there is "-id"`},
		{"-id 1" + peers + " more", `unexpected argument "more"`},
		{"-id 3" + peers, "-id 3 is neither in -peers nor in -observers: give one of [1 2]"},
		{"-id one" + peers, "invalid value"},
		{"-id 1 -zxid -7" + peers, "invalid value"},
		{"-id 1 -peers 1:7001", `-peers: "1:7001" is no peer: give id=host:port`},
		{"-id 1 -peers 1=localhost", `"1=localhost" is no peer`},
		{"-id 1 -peers 1=127.0.0.1:1,", `"" is no peer`},
		{"-id 1 -peers 0=127.0.0.1:1", "ids are from 1"},
		{"-id 1 -peers 1=127.0.0.1:1,1=127.0.0.1:2", "two peers with id 1"},
		{"-id 1" + peers + " -observers 2=127.0.0.1:3", "two peers with id 2"},
		{"-id 1" + peers + " -rule raft", "neither fle nor zen"},
		{"-id 1" + peers + " -rule zen -state x", "Zen has no rounds"},
		{"-id 1" + peers + " -state " + bad, `holds no round, such as 12, but "a word"`},
		{"-id 1 -peers 1=192.0.2.1:1", "cannot listen at its own address"},
	} {
		out, err := exec.Command(binary, strings.Fields(c.args)...).CombinedOutput()
		assert.Error(t, err, c.args)
		assert.Contains(t, string(out), c.says, c.args)
	}
}

// TestZenOverTCP has three peers of the other rule in this process.
func TestZenOverTCP(t *testing.T) {
	peers, err := addressesFor(3)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, leads := make(chan error), make(chan int, 100)
	for _, id := range []string{"1", "2", "3"} {
		n, _, err := parse([]string{"-rule", "zen", "-id", id, "-peers", peers})
		require.NoError(t, err)
		n.say = func(format string, args ...any) {
			if line := fmt.Sprintf(format, args...); strings.HasPrefix(line, "is followed by a majority") {
				leads <- n.id
			}
		}
		go func() { ended <- n.run(ctx) }()
	}
	select {
	case <-leads:
	case <-time.After(patience):
		assert.Fail(t, "nobody leads")
	}
	cancel()
	for range 3 {
		assert.NoError(t, <-ended)
	}
}

// TestHostile sends a peer what is no vote, and votes that nobody can have sent. It goes on,
// and ends with its ctx.
func TestHostile(t *testing.T) {
	peers, err := addressesFor(3)
	require.NoError(t, err)
	n, _, err := parse([]string{"-id", "1", "-peers", peers})
	require.NoError(t, err)
	said := make(chan string, 1000)
	n.say = func(format string, args ...any) { said <- fmt.Sprintf(format, args...) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.run(ctx) }()
	defer func() {
		cancel()
		assert.NoError(t, <-ended)
	}()
	hears := func(text string) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case line := <-said:
				if strings.Contains(line, text) {
					return
				}
			case <-late:
				require.FailNow(t, "never said", text)
			}
		}
	}
	hears("votes for 1")
	send := func(text string) {
		t.Helper()
		conn, err := net.Dial("tcp", n.addrs[1])
		require.NoError(t, err)
		_, err = conn.Write([]byte(text))
		assert.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	send("GET / HTTP/1.1\r\n\r\n")
	hears("closes a connection from")
	send(strings.Repeat("x", 2*longest))
	hears("a line of more than 512 bytes")
	send(string(encode(vote{9, leading, ballot{1, 9}, ballot{1, 9}})))   // itself
	send(string(encode(vote{9, looking, ballot{77, 9}, ballot{77, 9}}))) // one whom nobody knows
	send(string(encode(vote{9, looking, ballot{2, 9}, ballot{77, 9}})))  // for one whom nobody knows
	send(string(encode(vote{9, looking, ballot{2, 9}, ballot{2, 9}})))   // and a good one
	hears("round 9: votes for 2")
}

func TestState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	round, err := load(file)
	require.NoError(t, err)
	assert.Zero(t, round, "there is none yet")
	for _, want := range []uint64{1, 12} {
		require.NoError(t, save(file, want))
		round, err = load(file)
		require.NoError(t, err)
		assert.Equal(t, want, round)
	}
	files, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, files, 1)
	assert.ErrorContains(t, save(filepath.Join(file, "x"), 1), "-state: ")
}

// FuzzDecode holds that no line is a vote that is none, and that votes are read as they are written.
func FuzzDecode(f *testing.F) {
	f.Add(encode(vote{1, looking, ballot{3, 7}, ballot{3, 7}}))
	f.Add(encode(vote{math.MaxInt64 / 2, observing, ballot{math.MaxInt32, math.MaxUint64}, ballot{}}))
	f.Add([]byte(`{"logic_clock":1e3,"state":"","self_id":-1}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, line []byte) {
		v, err := decode(line)
		if err != nil {
			return
		}
		again, err := decode(encode(v))
		if err != nil || again != v {
			t.Fatalf("%+v is read as %+v, %v", v, again, err)
		}
		c := five(5, 6, 7).config(2, 0)
		for _, m := range []machine{newPeer(c), newZen(c)} {
			m.start()
			m.receive(v)
			m.timeout()
			m.receive(v)
		}
	})
}
