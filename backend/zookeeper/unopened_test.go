package zookeeper_test

import (
	"context"
	"errors"
	"net"
	"runtime"
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

// A session that Open has given up is not opened behind its back when the server can be
// reached again: nobody would close it, and the server keep it for its whole timeout.
func TestOpenThatFailedOpensNothing(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	p := zktest.NewProcess(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("no way")
			}
			return dial(network, address, timeout)
		}
	})
	down.Store(true)
	for range 30 {
		_, err := p.Backend.Open(t.Context(), backend.OpenOptions{})
		require.ErrorIs(t, err, backend.ErrUnavailable)
	}
	down.Store(false)
	time.Sleep(2 * time.Second) // so that one may be opened
	assert.Zero(t, p.Proxies[0].Accepted(), "nobody connects")
	assert.Zero(t, p.Sessions(), "nobody has a session")
}

// gated is a connection whose answers are kept until the gate opens.
type gated struct {
	net.Conn
	gate chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	<-g.gate
	return n, err
}

// The same where the server has granted the session, and its answer was on its way when
// ctx ended.
func TestOpenThatWasGivenUpClosesWhatItGets(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := zktest.NewProcess(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			conn, err := dial(network, address, timeout)
			return &gated{conn, gate}, err
		}
	})
	closed := p.Proxies[0].DropReply(proxytest.MatchOp(proxytest.OpClose), 1)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := p.Backend.Open(ctx, backend.OpenOptions{})
		given <- err
	}()
	wait.For(t, "the server grants a session", func() bool { return p.Sessions() == 1 })
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	close(gate)
	select {
	case request := <-closed:
		assert.Zero(t, request.Err, "the server has closed it")
	case <-time.After(wait.Patience):
		t.Fatal("it is not closed")
	}
}

// A Dialer that never returns keeps neither Open nor the end of a session from returning in time.
func TestDialerThatHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	p := zktest.NewProcess(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			if hangs.Load() {
				<-end
			}
			return dial(network, address, timeout)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	var open [2]*backend.Session
	for i := range open {
		var err error
		open[i], err = p.Backend.Open(ctx, backend.OpenOptions{TTL: 6 * time.Second})
		require.NoError(t, err)
	}
	hangs.Store(true)
	p.Each((*proxytest.Proxy).Cut)
	assert.Error(t, open[0].Close(ctx), "nobody can have confirmed it")
	for state := open[1].State(); state != backend.Lost; {
		var err error
		state, err = open[1].AwaitState(ctx, state)
		require.NoError(t, err)
	}
	assert.False(t, time.Now().Before(open[1].Deadline()))
	_, err := p.Backend.Open(ctx, backend.OpenOptions{TTL: 6 * time.Second})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "Config.Dialer has not returned")
	canceled, stop := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, stop)
	_, err = p.Backend.Open(canceled, backend.OpenOptions{TTL: 6 * time.Second})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ctx.Err())
}

// The client library makes 1.5 MB of buffers for a session, so it is not asked before a server has
// taken a connection: a hundred candidates that try again while none can be reached would starve the
// sessions of others.
func TestOpenWithoutAServerIsCheap(t *testing.T) {
	refused := errors.New("no way")
	b, err := zookeeper.New(zookeeper.Config{
		Servers: []string{"one:2181", "two:2181"},
		Dialer:  func(string, string, time.Duration) (net.Conn, error) { return nil, refused },
	})
	require.NoError(t, err)
	const opens = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range opens {
		_, err := b.Open(t.Context(), backend.OpenOptions{})
		require.ErrorIs(t, err, backend.ErrUnavailable)
		require.ErrorIs(t, err, refused)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/opens, uint64(100<<10), "bytes for each")
}
