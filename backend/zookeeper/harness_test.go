package zookeeper_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// newRoot returns a key that was never used before, and newTop one directly below the server's root.
func newRoot() string { return servicetest.NewRoot() }
func newTop() string  { return "/top-" + path.Base(newRoot()) }

// fixture is one process with one session, and a directory.
type fixture struct {
	*zktest.Process
	servicetest.Fixture
	server *servertest.ZooKeeper // nil if process has made it
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
func process(t *testing.T, servers []string, changes ...func(*zookeeper.Config)) *fixture {
	t.Helper()
	return &fixture{Fixture: servicetest.NewFixture(t), Process: zktest.NewProcess(t, servers, func(cfg *zookeeper.Config) {
		for _, change := range changes {
			if change != nil {
				change(cfg)
			}
		}
	})}
}

// begin opens the session, and creates the directory.
func (f *fixture) begin() {
	f.T.Helper()
	f.S = f.open()
	f.Enter(newRoot())
}

// another returns another process at the same servers, with a session and the same directory.
func (f *fixture) another(change func(*zookeeper.Config)) *fixture {
	f.T.Helper()
	o := process(f.T, f.Servers, change)
	o.server, o.S, o.Dir = f.server, o.open(), f.Dir
	return o
}

// admin returns another client of the servers.
func (f *fixture) admin() *zk.Conn {
	f.T.Helper()
	return zktest.Operator(f.T, f.Servers...)
}

// pings removes the heartbeat's own requests from what a test counts.
func pings(cfg *zookeeper.Config) { cfg.Heartbeat = zookeeper.HeartbeatPing }

// sessionTimeout is for tests that wait for a session's end or heartbeats. Others have 30 s.
func sessionTimeout(timeout time.Duration) func(*zookeeper.Config) {
	return func(cfg *zookeeper.Config) { cfg.SessionTimeout = timeout }
}

func (f *fixture) open() *backend.Session {
	f.T.Helper()
	return servicetest.Open(f.Ctx, f.T, f.Backend, backend.OpenOptions{})
}

// commitUnder commits on condition that an entry exists.
func (f *fixture) commitUnder(s *backend.Session, e backend.Entry, ops ...backend.Op) error {
	_, err := s.Commit(f.Ctx, []backend.Condition{backend.IfExists(e)}, ops...)
	return err
}

func (f *fixture) create(s *backend.Session, key string) backend.Entry {
	f.T.Helper()
	return f.Commit(s, backend.CreateEphemeral(key, nil))[0]
}

// settles waits until a directory lists exactly these.
func (f *fixture) settles(dir string, keys ...string) {
	f.T.Helper()
	wait.For(f.T, "nothing else is listed", func() bool {
		l, err := f.S.List(f.Ctx, dir)
		return err == nil && slices.Equal(l.Keys, keys)
	})
}

// awaits starts an Await, and waits until the server watches each key.
func (f *fixture) awaits(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	waiting := f.Hangs(f.S, known...) // the server may have the watches of an earlier call
	for _, e := range known {
		wait.For(f.T, "a watch", func() bool { return f.watchesOf(e.Key) == 1 })
	}
	return waiting
}

// watchesOf counts a path's watches at the server.
func (f *fixture) watchesOf(path string) int {
	f.T.Helper()
	answer := must.Get(f.server.Command("wchp"))(f.T)
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
	f.T.Helper()
	wait.For(f.T, fmt.Sprintf("%s stands: %t", path, want), func() bool {
		ok, _, err := by.Exists(path)
		return err == nil && ok == want
	})
}

// closes calls Close in the background.
func (f *fixture) closes(s *backend.Session) <-chan wait.Result[struct{}] {
	return wait.Later(func() (struct{}, error) { return struct{}{}, s.Close(f.Ctx) })
}

// requests returns the opcodes that a process sends from now on, except pings.
func (f *fixture) requests() func() []int32 {
	var mu sync.Mutex
	var all []int32
	f.T.Cleanup(f.OnRequest(func(opcode int32, _ []byte) {
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
	f.T.Cleanup(f.OnRequest(func(opcode int32, payload []byte) {
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
