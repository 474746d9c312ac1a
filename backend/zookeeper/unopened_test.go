package zookeeper_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// sessionsOf asks a server of its own how many sessions it has.
func sessionsOf(t *testing.T, server *servertest.ZooKeeper) int {
	t.Helper()
	m, err := server.Metrics()
	require.NoError(t, err)
	return int(m["global_sessions"])
}

// A session that Open has given up is not opened behind its back when the server can be
// reached again: nobody would close it, and the server keep it for its whole timeout.
func TestOpenThatFailedOpensNothing(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	var down atomic.Bool
	b, err := zookeeper.New(zookeeper.Config{
		Servers: []string{server.Addr()}, SessionTimeout: 30 * time.Second,
		Dialer: func(network, address string, timeout time.Duration) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("no way")
			}
			return net.DialTimeout(network, address, timeout)
		},
	})
	require.NoError(t, err)
	down.Store(true)
	for range 30 {
		_, err := b.Open(t.Context(), backend.OpenOptions{})
		require.ErrorIs(t, err, backend.ErrUnavailable)
	}
	down.Store(false)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		assert.Zero(t, sessionsOf(t, server), "nobody has a session")
	}
}

// gated is a connection whose answers are kept until the gate opens.
type gated struct {
	net.Conn
	gate chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	<-g.gate
	return g.Conn.Read(p)
}

// The same where the server has granted the session, and its answer was on its way when
// ctx ended.
func TestOpenThatWasGivenUpClosesWhatItGets(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	gate := make(chan struct{})
	b, err := zookeeper.New(zookeeper.Config{
		Servers: []string{server.Addr()}, SessionTimeout: 30 * time.Second,
		Dialer: func(network, address string, timeout time.Duration) (net.Conn, error) {
			conn, err := net.DialTimeout(network, address, timeout)
			return &gated{conn, gate}, err
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := b.Open(ctx, backend.OpenOptions{})
		given <- err
	}()
	require.Eventually(t, func() bool { return sessionsOf(t, server) == 1 }, wait.Patience, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	close(gate)
	assert.Eventually(t, func() bool { return sessionsOf(t, server) == 0 }, 15*time.Second, 50*time.Millisecond, "it is closed, and does not end by itself")
}

// The client library makes 1.5 MB of buffers for a session, so it is not asked before a server has
// taken a connection: a hundred candidates that try again while none can be reached would starve the
// sessions of others.
func TestOpenWithoutAServerIsCheap(t *testing.T) {
	t.Parallel()
	refused := errors.New("no way")
	b, err := zookeeper.New(zookeeper.Config{
		Servers: []string{"one:2181", "two:2181"},
		Dialer:  func(string, string, time.Duration) (net.Conn, error) { return nil, refused },
	})
	require.NoError(t, err)
	opened := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for tb.Loop() {
			_, err := b.Open(t.Context(), backend.OpenOptions{})
			if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, refused) {
				tb.Fatalf("opened: %v", err)
			}
		}
	})
	assert.Less(t, opened.AllocedBytesPerOp(), int64(100<<10), opened)
}
