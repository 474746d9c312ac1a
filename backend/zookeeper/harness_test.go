package zookeeper_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

var roots atomic.Uint64

// newRoot returns a key that was never used before.
func newRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }

// newTop returns such a key directly below the server's root.
func newTop() string { return fmt.Sprintf("/top-%d", roots.Add(1)) }

// fixture is one process with one session, and a directory.
type fixture struct {
	*zktest.Process
	t      *testing.T
	ctx    context.Context
	server *servertest.ZooKeeper // nil if process has made it
	s      *backend.Session
	dir    string
}

// setUp connects the process to the shared server.
func setUp(t *testing.T, change func(*zookeeper.Config)) *fixture {
	t.Helper()
	return setUpOn(t, servertest.SharedZooKeeper(t), change)
}

// setUpOn gives the process further addresses of the server.
func setUpOn(t *testing.T, server *servertest.ZooKeeper, change func(*zookeeper.Config), more ...string) *fixture {
	t.Helper()
	f := process(t, append([]string{server.Addr()}, more...), change)
	f.server = server
	f.begin()
	return f
}

// process returns a fixture without a session. Its logger does not return before the test ends: nothing
// may wait for it (see asynclogtest.Stuck).
func process(t *testing.T, servers []string, change func(*zookeeper.Config)) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	return &fixture{t: t, ctx: ctx, Process: zktest.NewProcess(t, servers, change)}
}

// begin opens the session, and creates the directory.
func (f *fixture) begin() {
	f.t.Helper()
	f.s, f.dir = f.open(), newRoot()
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
}

// another returns another process at the same servers, with a session and the same directory.
func (f *fixture) another(change func(*zookeeper.Config)) *fixture {
	f.t.Helper()
	o := process(f.t, f.Servers, change)
	o.server, o.s, o.dir = f.server, o.open(), f.dir
	return o
}

// admin returns another client of the servers.
func (f *fixture) admin() *zk.Conn {
	f.t.Helper()
	return zktest.Operator(f.t, f.Servers...)
}

// pings removes the heartbeat's own requests from what a test counts.
func pings(cfg *zookeeper.Config) { cfg.Heartbeat = zookeeper.HeartbeatPing }

// sessionTimeout is for tests that wait for a session's end or heartbeats. Others have 30 s.
func sessionTimeout(timeout time.Duration) func(*zookeeper.Config) {
	return func(cfg *zookeeper.Config) { cfg.SessionTimeout = timeout }
}

func (f *fixture) open() *backend.Session {
	f.t.Helper()
	return servicetest.Open(f.ctx, f.t, f.Backend, backend.OpenOptions{})
}

func (f *fixture) commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.t.Helper()
	return must.Get(s.Commit(f.ctx, nil, ops...))(f.t)
}

// commitUnder commits on condition that an entry exists.
func (f *fixture) commitUnder(s *backend.Session, e backend.Entry, ops ...backend.Op) error {
	_, err := s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)}, ops...)
	return err
}

func (f *fixture) enqueue(s *backend.Session) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.Enqueue(f.dir, []byte("v")))[0]
}

func (f *fixture) create(s *backend.Session, key string) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.CreateEphemeral(key, nil))[0]
}

func (f *fixture) get(key string) backend.Entry {
	f.t.Helper()
	return must.Get(f.s.Get(f.ctx, key))(f.t)
}

func (f *fixture) isGone(key string) {
	f.t.Helper()
	_, err := f.s.Get(f.ctx, key)
	require.ErrorIs(f.t, err, backend.ErrNoEntry)
}

// lists checks the names that the directory lists.
func (f *fixture) lists(keys ...string) {
	f.t.Helper()
	l := must.Get(f.s.List(f.ctx, f.dir))(f.t)
	require.Equal(f.t, append([]string{}, keys...), l.Keys)
}

// settles waits until a directory lists exactly these.
func (f *fixture) settles(dir string, keys ...string) {
	f.t.Helper()
	wait.For(f.t, "nothing else is listed", func() bool {
		l, err := f.s.List(f.ctx, dir)
		return err == nil && slices.Equal(l.Keys, keys)
	})
}

func (f *fixture) predecessorIs(of, want backend.Entry) {
	f.t.Helper()
	before := must.Get(f.s.Predecessor(f.ctx, of))(f.t)
	require.True(f.t, before.Same(want), "%+v", before)
}

// awaitState waits until a session is in a state. It fails on Lost, unless that is the state.
func (f *fixture) awaitState(s *backend.Session, want backend.State) {
	f.t.Helper()
	servicetest.AwaitState(f.ctx, f.t, s, want)
}

// awaits starts an Await, and waits until the server watches each key.
func (f *fixture) awaits(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.t.Helper()
	waiting := wait.Later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	for _, e := range known {
		wait.For(f.t, "a watch", func() bool { return f.watchesOf(e.Key) == 1 })
	}
	return waiting
}

// watchesOf counts a path's watches at the server.
func (f *fixture) watchesOf(path string) int {
	f.t.Helper()
	answer := must.Get(f.server.Command("wchp"))(f.t)
	n, in := 0, false
	for line := range strings.Lines(answer) {
		if !strings.HasPrefix(line, "\t") {
			in = strings.TrimSpace(line) == path
		} else if in {
			n++
		}
	}
	return n
}

// stands waits until another client sees that a node exists, or that it is gone.
func (f *fixture) stands(by *zk.Conn, path string, want bool) {
	f.t.Helper()
	wait.For(f.t, fmt.Sprintf("%s stands: %t", path, want), func() bool {
		ok, _, err := by.Exists(path)
		return err == nil && ok == want
	})
}

// closes calls Close in the background.
func (f *fixture) closes(s *backend.Session) <-chan wait.Result[struct{}] {
	return wait.Later(func() (struct{}, error) { return struct{}{}, s.Close(f.ctx) })
}

// requests returns the opcodes that a process sends from now on, except pings.
func (f *fixture) requests() func() []int32 {
	var mu sync.Mutex
	var all []int32
	f.t.Cleanup(f.OnRequest(func(opcode int32, _ []byte) {
		mu.Lock()
		defer mu.Unlock()
		if opcode != proxytest.OpPing {
			all = append(all, opcode)
		}
	}))
	return func() []int32 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// counts counts the requests that a process sends from now on and that match.
func (f *fixture) counts(match proxytest.Match) (sent func() int64) {
	var n atomic.Int64
	f.t.Cleanup(f.OnRequest(func(opcode int32, payload []byte) {
		if match(opcode, payload) {
			n.Add(1)
		}
	}))
	return n.Load
}

// logged collects the log.
type logged struct{ wait.Log }

// count returns how often a text was logged.
func (l *logged) count(text string) int { return strings.Count(l.String(), text) }
