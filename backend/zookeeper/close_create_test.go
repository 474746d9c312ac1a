package zookeeper_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/wait"
)

// gate is a connection whose writes block while it is shut.
type gate struct {
	net.Conn
	shut *atomic.Pointer[chan struct{}]
}

func (g gate) Write(p []byte) (int, error) {
	if opens := g.shut.Load(); opens != nil {
		<-*opens
	}
	return g.Conn.Write(p)
}

// A create that still waits when its session is closed makes no node but its own: the client library sends it all the
// same, and the caller is gone.
func TestCloseWhileACreateIsQueued(t *testing.T) {
	t.Parallel()
	var shut atomic.Pointer[chan struct{}]
	f := setUp(t, func(cfg *zookeeper.Config) {
		pings(cfg)
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			conn, err := dial(network, address, timeout)
			return gate{conn, &shut}, err
		}
	})
	admin := f.admin()
	opens := make(chan struct{})
	shut.Store(&opens)
	first := f.Gets(f.S, f.Dir)
	time.Sleep(50 * time.Millisecond)
	creating := f.Commits(f.S, backend.CompareAndSet(f.Dir, nil, 0)) // which is there
	time.Sleep(50 * time.Millisecond)
	closing := f.closes(f.S)
	wait.Fails(t, first, backend.ErrSessionLost)
	_, err := wait.Returned(t, creating)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	time.Sleep(50 * time.Millisecond)
	close(opens)
	wait.Value(t, closing)
	children, _, err := admin.Children(f.Dir)
	require.NoError(t, err)
	require.Empty(t, children)
}
