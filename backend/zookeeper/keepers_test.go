package zookeeper_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/fair"
)

// noPasswords is a connection to a server that grants sessions as ClickHouse Keeper does.
type noPasswords struct {
	net.Conn
	greeting []byte
	greeted  bool
}

func (c *noPasswords) Read(p []byte) (int, error) {
	if !c.greeted {
		const head = 4 + 4 + 4 + 8 + 4
		c.greeted, c.greeting = true, make([]byte, head+16)
		if _, err := io.ReadFull(c.Conn, c.greeting); err != nil {
			return 0, err
		}
		clear(c.greeting[head:])
	}
	if len(c.greeting) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.greeting)
	c.greeting = c.greeting[n:]
	return n, nil
}

// A server that only speaks ZooKeeper's protocol is refused at once, and for good: what the trust window
// follows from is not there. The error says which server it may be.
func TestOpenRefusesKeepers(t *testing.T) {
	t.Parallel()
	p := zktest.NewProcess(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(network, address string, timeout time.Duration) (net.Conn, error) {
			conn, err := dial(network, address, timeout)
			if err != nil {
				return nil, err
			}
			return &noPasswords{Conn: conn}, nil
		}
	})
	began := time.Now()
	_, err := p.Backend.Open(t.Context(), backend.OpenOptions{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "ClickHouse Keeper")
	assert.NotErrorIs(t, err, backend.ErrSessionLost)
	assert.Less(t, time.Since(began), wait.Patience/2)

	e, err := elector.New(elector.Config{Backend: p.Backend, Strategy: fair.New(), Election: newRoot(), ID: "a"})
	require.NoError(t, err)
	_, err = e.Campaign(t.Context()) // does not go on
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, e.Close(t.Context()))
}
