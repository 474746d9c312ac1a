package zookeeper_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// dialing returns a process, with sessions of 6 s, whose Dialer is the test's: it gets the process's
// own dial.
func dialing(t *testing.T, test func(dial func() (net.Conn, error)) (net.Conn, error)) *fixture {
	t.Helper()
	return process(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		own := cfg.Dialer
		cfg.SessionTimeout = 6 * time.Second
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			return test(func() (net.Conn, error) { return own(network, address, timeout) })
		}
	})
}

// A session that Open has given up is not opened later when the server can be reached again: nobody
// would close it, and the server would keep it for its full timeout.
func TestOpenThatFailedOpensNothing(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	p := dialing(t, func(dial func() (net.Conn, error)) (net.Conn, error) {
		if down.Load() {
			return nil, errors.New("no way")
		}
		return dial()
	})
	down.Store(true)
	for range 30 {
		_, err := p.Backend.Open(t.Context(), backend.OpenOptions{})
		require.ErrorIs(t, err, backend.ErrUnavailable)
	}
	down.Store(false)
	time.Sleep(2 * time.Second) // time for one to be opened
	assert.Zero(t, p.Proxies[0].Accepted(), "nobody connects")
	assert.Zero(t, p.Sessions(), "nobody has a session")
}

// The same holds if the server has granted the session, and its reply was in transit when ctx ended.
func TestOpenThatWasGivenUpClosesWhatItGets(t *testing.T) {
	t.Parallel()
	p := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, nil)
	granted, release := p.HoldReply(proxytest.MatchOp(proxytest.OpConnect))
	closed := p.DropReply(proxytest.MatchOp(proxytest.OpClose), 1)
	ctx, cancel := context.WithCancel(p.Ctx)
	opening := wait.Later(func() (*backend.Session, error) { return p.Backend.Open(ctx, backend.OpenOptions{}) })
	<-granted
	cancel()
	_, err := wait.Returned(p.T, opening)
	require.ErrorIs(t, err, context.Canceled)
	release()
	select {
	case request := <-closed:
		assert.Zero(t, request.Err, "the server has closed it")
	case <-p.Ctx.Done():
		t.Fatal("it is not closed")
	}
}

// A Dialer that never returns delays neither Open nor the end of a session.
func TestDialerThatHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	p := dialing(t, func(dial func() (net.Conn, error)) (net.Conn, error) {
		if hangs.Load() {
			<-end
		}
		return dial()
	})
	closed, lost := p.open(), p.open()
	hangs.Store(true)
	p.Cut()
	assert.Error(t, closed.Close(p.Ctx), "nobody can have confirmed it")
	p.AwaitState(lost, backend.Lost)
	assert.False(t, time.Now().Before(lost.Deadline()))
	_, err := p.Backend.Open(p.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "Config.Dialer has not returned")
	canceled, stop := context.WithCancel(p.Ctx)
	time.AfterFunc(100*time.Millisecond, stop)
	_, err = p.Backend.Open(canceled, backend.OpenOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.Ctx.Err())
}

// The client library makes 1.5 MB of buffers for a session, so it is not called before a server has
// accepted a connection: a hundred candidates that retry while no server can be reached would starve
// other sessions.
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

// noPasswords is a connection to a server that grants sessions as ClickHouse Keeper does.
type noPasswords struct {
	net.Conn
	stream io.Reader // set once the server has greeted
}

func (c *noPasswords) Read(p []byte) (int, error) {
	if c.stream == nil {
		const head = 4 + 4 + 4 + 8 + 4
		greeting := make([]byte, head+16)
		if _, err := io.ReadFull(c.Conn, greeting); err != nil {
			return 0, err
		}
		clear(greeting[head:])
		c.stream = io.MultiReader(bytes.NewReader(greeting), c.Conn)
	}
	return c.stream.Read(p)
}

// A server that only speaks ZooKeeper's protocol is refused at once, and for good: the trust window's
// premises do not hold there. The error says which server it may be.
func TestOpenRefusesKeepers(t *testing.T) {
	t.Parallel()
	p := dialing(t, func(dial func() (net.Conn, error)) (net.Conn, error) {
		conn, err := dial()
		return &noPasswords{Conn: conn}, err
	})
	began := time.Now()
	_, err := p.Backend.Open(t.Context(), backend.OpenOptions{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "ClickHouse Keeper")
	assert.NotErrorIs(t, err, backend.ErrSessionLost)
	assert.Less(t, time.Since(began), wait.Patience/2)

	e := p.Stand(elector.Config{Backend: p.Backend, Election: newRoot()})
	_, err = e.Campaign(t.Context()) // the campaign does not continue
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, e.Close(t.Context()))
}
