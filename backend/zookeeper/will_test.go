package zookeeper_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A server that enforces credentials takes no closing request before it has them.
func TestWillPresentsCredentials(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{
		"enforce.auth.enabled=true", "enforce.auth.schemes=digest",
	}})
	known := func(cfg *zookeeper.Config) { cfg.Auth = []zookeeper.Auth{zookeeper.Digest("u", "p")} }
	f := setUpOn(t, server, known)
	w, err := f.s.Will()
	require.NoError(t, err)
	stranger := zktest.NewProcess(t, []string{server.Addr()}, nil)
	require.ErrorIs(t, backend.Execute(f.ctx, stranger.Backend, w), backend.ErrDenied)
	own := zktest.NewProcess(t, []string{server.Addr()}, known)
	f.awaitState(backend.Live) // the stranger has taken its link
	assert.Equal(t, 1, sessionsOf(t, server))
	require.NoError(t, backend.Execute(f.ctx, own.Backend, w))
	assert.Zero(t, sessionsOf(t, server))
	require.NoError(t, backend.Execute(f.ctx, own.Backend, w), "nor does what it asks for the second time")
	assert.Zero(t, sessionsOf(t, server))
}

// sessionsOf asks a server of its own how many sessions it has.
func sessionsOf(t *testing.T, server *servertest.ZooKeeper) int {
	t.Helper()
	m, err := server.Metrics()
	require.NoError(t, err)
	return int(m["global_sessions"])
}

// A closing request that is turned away, or whose answer is lost, is sent again.
func TestWillIsExecutedUntilConfirmed(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	e := f.enqueue(f.s)
	w, err := f.s.Will()
	require.NoError(t, err)
	by := zktest.NewProcess(t, []string{f.server.Addr()}, nil)
	var asked atomic.Int64
	by.Proxies[0].OnRequest(func(opcode int32, _ []byte) {
		if opcode == proxytest.OpClose {
			asked.Add(1)
		}
	})
	release := by.Proxies[0].TurnAway(proxytest.MatchOp(proxytest.OpClose), throttled)
	executing := later(func() (struct{}, error) { return struct{}{}, backend.Execute(f.ctx, by.Backend, w) })
	wait.For(t, "it asks again and again", func() bool { return asked.Load() > 2 })
	select {
	case r := <-executing:
		t.Fatalf("it returned %v", r.err)
	default:
	}
	release()
	_, err = receive(f, executing)
	require.NoError(t, err)
	_, err = f.open().Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
}

// A server that accepts connections and says nothing costs the time that a session takes for it.
func TestWillAtAFrozenServer(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(time.Minute))
	w, err := f.s.Will()
	require.NoError(t, err)
	by := zktest.NewProcess(t, []string{f.server.Addr(), f.server.Addr()}, func(cfg *zookeeper.Config) { cfg.ConnectTimeout = 200 * time.Millisecond })
	by.Proxies[0].Stall()
	began := time.Now()
	require.NoError(t, backend.Execute(f.ctx, by.Backend, w))
	assert.Less(t, time.Since(began), f.s.TTL()/2)
}
