package zktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/internal/attempt"
)

// Controls keep sessions of the bare client library, one at each member, as
// conformance.Service.Controls says.
func (s *Servers) Controls(ttl time.Duration) (controls []attempt.Control) {
	for _, addr := range s.addrs() {
		controls = append(controls, Control(addr, ttl))
	}
	return controls
}

// Control is that of one server.
func Control(addr string, ttl time.Duration) attempt.Control {
	return func(ctx context.Context, answered func(sent time.Time)) error {
		conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(silent{}), zk.WithDialer(dialer(ctx, ttl)))
		if err != nil {
			return err
		}
		defer conn.Close()
		var session int64
		return attempt.Every(ctx, ttl, answered, func() error {
			// A transaction without operations is a write that changes nothing: the leader and a
			// quorum have a part in it, as in what rules do. It has no ctx, and ends with the
			// connection.
			_, err := conn.Multi()
			id := conn.SessionID()
			switch {
			case session != 0 && id != session:
				// The library has another one by now, or is about to ask for it.
				return fmt.Errorf("%w: ZooKeeper has let session %#x expire", attempt.ErrLost, session)
			case errors.Is(err, zk.ErrSessionExpired):
				return fmt.Errorf("%w: %w", attempt.ErrLost, err)
			case err == nil:
				session = id
			}
			return err
		})
	}
}

// dialer makes connections that end with ctx. The library waits for the answer to its
// handshake for several session timeouts; these give up after one.
func dialer(ctx context.Context, ttl time.Duration) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatient{conn, ttl, context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
	}
}

type impatient struct {
	net.Conn
	most time.Duration
	stop func() bool
}

func (c *impatient) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(c.most); t.After(most) {
		t = most
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *impatient) Close() error {
	c.stop()
	return c.Conn.Close()
}
