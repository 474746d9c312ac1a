package zookeeper_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// The tests named TestPitfallNN hold what the client library does wrong, or leaves
// to its user, against what this package makes of it.

// fixture is one process with one session and a directory on the shared server.
type fixture struct {
	*zktest.Process
	t      *testing.T
	ctx    context.Context
	server *servertest.ZooKeeper
	s      *backend.Session
	dir    string
}

func setUp(t *testing.T, change func(*zookeeper.Config)) *fixture {
	t.Helper()
	return setUpOn(t, servertest.SharedZooKeeper(t), change)
}

// pings keeps the heartbeat's own requests out of what a test counts.
func pings(cfg *zookeeper.Config) { cfg.Heartbeat = zookeeper.HeartbeatPing }

// setUpOn has the process know the server by further addresses, too.
func setUpOn(t *testing.T, server *servertest.ZooKeeper, change func(*zookeeper.Config), more ...string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	f := &fixture{t: t, ctx: ctx, server: server, Process: zktest.NewProcess(t, append([]string{server.Addr()}, more...), change)}
	f.s = f.open()
	f.dir = newRoot()
	_, err := f.s.Commit(ctx, nil, backend.CompareAndSet(f.dir, nil, 0))
	require.NoError(t, err)
	return f
}

// sessionTimeout is for tests that wait for the end of a session, or for its heartbeats. Others have 30 s.
func sessionTimeout(timeout time.Duration) func(*zookeeper.Config) {
	return func(cfg *zookeeper.Config) { cfg.SessionTimeout = timeout }
}

func (f *fixture) open() *backend.Session {
	f.t.Helper()
	s, err := f.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // those that look at its error close it themselves
	})
	return s
}

func (f *fixture) commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.t.Helper()
	made, err := s.Commit(f.ctx, nil, ops...)
	require.NoError(f.t, err)
	return made
}

func (f *fixture) enqueue(s *backend.Session) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.Enqueue(f.dir, []byte("v")))[0]
}

func (f *fixture) awaitState(want backend.State) {
	f.t.Helper()
	for state := f.s.State(); state != want; {
		require.NotEqual(f.t, backend.Lost, state)
		var err error
		state, err = f.s.AwaitState(f.ctx, state)
		require.NoError(f.t, err)
	}
}

// later runs a call and returns what it returns.
func later[T any](do func() (T, error)) <-chan result[T] {
	answer := make(chan result[T], 1)
	go func() {
		v, err := do()
		answer <- result[T]{v, err}
	}()
	return answer
}

type result[T any] struct {
	v   T
	err error
}

func receive[T any](f *fixture, answer <-chan result[T]) (T, error) {
	f.t.Helper()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-f.ctx.Done():
		f.t.Fatal("it hangs")
		panic("unreachable")
	}
}

// counter counts requests by opcode.
type counter struct {
	mu    sync.Mutex
	count map[int32]int
	order []int32
}

func (f *fixture) countRequests() *counter {
	c := &counter{count: make(map[int32]int)}
	f.Each(func(x *proxytest.Proxy) {
		f.t.Cleanup(x.OnRequest(func(opcode int32, _ []byte) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.count[opcode]++
			if opcode != proxytest.OpPing {
				c.order = append(c.order, opcode)
			}
		}))
	})
	return c
}

func (c *counter) all() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int32(nil), c.order...)
}

func TestPitfall01ConnectReturnsAtOnce(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	p := zktest.NewProcess(t, []string{server.Addr()}, func(cfg *zookeeper.Config) { cfg.ConnectTimeout = cfg.SessionTimeout })
	f := &fixture{t: t, Process: p}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	f.ctx = ctx
	p.Proxies[0].StallToClient()
	opening := later(func() (*backend.Session, error) { return p.Backend.Open(ctx, backend.OpenOptions{}) })
	wait.For(t, "it connects", func() bool { return len(p.Proxies[0].Links()) == 1 })
	select {
	case r := <-opening:
		t.Fatalf("open returned %v before the session was granted", r)
	default:
	}
	p.Proxies[0].Unstall()
	s, err := receive(f, opening)
	require.NoError(t, err)
	assert.Equal(t, backend.Live, s.State())
	assert.Equal(t, fmt.Sprintf("%016x", uint64(zookeeper.Conn(s).SessionID())), s.ID())
	require.NoError(t, s.Close(ctx))
}

func TestPitfall02NewSessionAfterExpiry(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	var unpinned atomic.Int32
	f.Proxies[0].OnRequest(func(opcode int32, payload []byte) {
		if opcode == proxytest.OpConnect && binary.BigEndian.Uint64(payload[16:]) == 0 {
			unpinned.Add(1)
		}
	})
	conn := zookeeper.Conn(f.s)
	f.Expire()
	state, err := f.s.AwaitState(f.ctx, backend.Suspended)
	for err == nil && state != backend.Lost {
		state, err = f.s.AwaitState(f.ctx, state)
	}
	require.NoError(t, err)
	// Both ways of writing are closed, and stay so.
	_, err = f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	require.ErrorIs(t, err, backend.ErrSessionLost)
	_, err = conn.Create(f.dir+"/x", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.Error(t, err)
	require.NoError(t, f.s.Close(f.ctx))
	assert.Zero(t, unpinned.Load(), "requests for another session")
	assert.Equal(t, 1, f.Sessions())
}

func TestPitfall03ExpiryIsLearntWithoutContact(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(10*time.Second))
	other := zktest.NewProcess(t, f.Servers, nil)
	watching, err := other.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer watching.Close(f.ctx)
	e := f.enqueue(f.s)
	f.Proxies[0].Stall()
	_, err = watching.Await(f.ctx, e)
	require.NoError(t, err)
	assert.Equal(t, backend.Lost, f.s.State(), "the server let it expire before the client knew")
	assert.False(t, time.Now().Before(f.s.Deadline()), "it expired within its window")
	f.Proxies[0].Unstall()
}

func TestPitfall04GrantedTimeout(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, TickTime: 10 * time.Second}), pings)
	for asked, granted := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 20 * time.Second, // two ticks
		30 * time.Second:       30 * time.Second,
		24 * time.Hour:         time.Minute,
	} {
		before := time.Now()
		s, err := f.Backend.Open(f.ctx, backend.OpenOptions{TTL: asked})
		require.NoError(t, err)
		assert.Equal(t, granted, s.TTL(), "asked for %v", asked)
		// The window is reckoned from the grant.
		assert.False(t, s.Deadline().Before(before.Add(granted*3/4)))
		assert.False(t, s.Deadline().After(time.Now().Add(granted*3/4)))
		require.NoError(t, s.Close(f.ctx))
	}
}

func TestPitfall05SuspendedBeforeTheWindowEnds(t *testing.T) {
	servertest.Long(t, "a machine that loses no second: so much is left of the window")
	f := setUp(t, func(cfg *zookeeper.Config) {
		pings(cfg)
		cfg.SessionTimeout = 12 * time.Second // a second of the window is left then
	})
	f.Proxies[0].Stall()
	f.awaitState(backend.Suspended)
	assert.True(t, time.Now().Before(f.s.Deadline()), "declared dead after the end of the window")
	f.Proxies[0].Cut()
	f.Proxies[0].Unstall()
	f.awaitState(backend.Live)
}

func TestPitfall06WatchesOverDisconnectAndExpiry(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	p := zktest.NewProcess(t, f.Servers, nil)
	away, err := p.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer away.Close(f.ctx)
	e := f.enqueue(f.s)
	waiting := later(func() ([]backend.Entry, error) { return away.Await(f.ctx, e) })
	wait.For(t, "a watch", func() bool { return watchesOf(t, f.server, e.Key) == 1 })
	p.Suspend()
	f.commit(f.s, backend.Update(e, []byte("changed")))
	p.Resume()
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.Equal(t, "changed", string(got[0].Value))

	waiting = later(func() ([]backend.Entry, error) { return away.Await(f.ctx, got...) })
	p.Expire()
	_, err = receive(f, waiting)
	require.ErrorIs(t, err, backend.ErrSessionLost)
}

// watchesOf counts a path's watches at the server.
func watchesOf(t *testing.T, server *servertest.ZooKeeper, path string) int {
	t.Helper()
	answer, err := server.Command("wchp")
	require.NoError(t, err)
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

func TestPitfall08EventsAreNotDropped(t *testing.T) {
	f := setUp(t, nil)
	// Far more events at once than the library's channel holds (six), with nobody
	// reading from it.
	var known []backend.Entry
	for range 40 {
		known = append(known, f.enqueue(f.s))
	}
	other := zktest.NewProcess(t, f.Servers, nil)
	watching, err := other.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer watching.Close(f.ctx)
	var waits []<-chan result[[]backend.Entry]
	for _, e := range known {
		waits = append(waits, later(func() ([]backend.Entry, error) { return watching.Await(f.ctx, e) }))
	}
	for _, e := range known {
		wait.For(t, "a watch", func() bool { return watchesOf(t, f.server, e.Key) == 1 })
	}
	require.NoError(t, f.s.Close(f.ctx))
	for _, wait := range waits {
		got, err := receive(f, wait)
		require.NoError(t, err)
		assert.False(t, got[0].Exists())
	}
}

func TestPitfall09OneWatchPerPath(t *testing.T) {
	f := setUp(t, pings)
	e, before := f.enqueue(f.s), f.enqueue(f.s)
	requests := f.countRequests()
	for range 50 {
		ctx, cancel := context.WithTimeout(f.ctx, time.Millisecond)
		_, err := f.s.Await(ctx, e, before)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.LessOrEqual(t, len(requests.all()), 2, "one read for each path, for all calls together")
	wait.For(t, "a watch", func() bool { return watchesOf(t, f.server, e.Key) == 1 })
	require.NoError(t, f.s.Discard(f.ctx, e))
	got, err := f.s.Await(f.ctx, e)
	require.NoError(t, err)
	assert.False(t, got[0].Exists())
	assert.Zero(t, watchesOf(t, f.server, e.Key), "a watch stays on a node that is gone")
}
