package zookeeper

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// once is an Exchange of one token, which the server only has to accept.
type once struct{ next func() }

func (x once) Next([]byte) ([]byte, bool, error) {
	if x.next != nil {
		x.next()
	}
	return []byte("token"), true, nil
}

func accepting(int) (int32, []byte) { return 0, nil }

// A mechanism that ignores ctx, ends its goroutine, or returns nothing delays neither Open nor the end of a session, and
// nothing is sent without it.
func TestSASLOfUsersWithErrors(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]struct {
		start func(hang <-chan struct{}) (Exchange, error)
		says  string
	}{
		"Start hangs":              {func(hang <-chan struct{}) (Exchange, error) { <-hang; return once{}, nil }, "not ready within"},
		"Start ends its goroutine": {func(<-chan struct{}) (Exchange, error) { runtime.Goexit(); return once{}, nil }, "runtime.Goexit"},
		"Start returns nothing":    {func(<-chan struct{}) (Exchange, error) { return nil, nil }, "neither"},
		"Next ends its goroutine":  {func(<-chan struct{}) (Exchange, error) { return once{runtime.Goexit}, nil }, "runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _, others := saslServer(t, accepting)
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			var wrong atomic.Bool
			b := must.Get(New(Config{Servers: []string{server}, ConnectTimeout: 3 * time.Second, Heartbeat: HeartbeatPing,
				SASL: ticketed(func(context.Context, string) (Exchange, error) {
					if wrong.Load() {
						return try.start(hang)
					}
					return once{}, nil
				})}))(t)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
			defer cancel()
			s, err := b.open(ctx, time.Minute)
			require.NoError(t, err)
			wrong.Store(true)
			before := others.Load()
			s.pin.Cut()
			wait.For(t, "it says why", func() bool { return strings.Contains(fmt.Sprint(s.hosts.failure()), try.says) })
			assert.Equal(t, backend.Suspended, s.State())
			deadline := s.Deadline()
			time.Sleep(300 * time.Millisecond)
			assert.Equal(t, deadline, s.Deadline(), "no link that has not authenticated moves the window")
			require.Error(t, s.Close(ctx))
			require.NoError(t, ctx.Err(), "Close hangs")

			_, err = b.open(ctx, time.Minute)
			require.ErrorIs(t, err, backend.ErrUnavailable)
			require.ErrorContains(t, err, try.says)
			require.NoError(t, ctx.Err(), "open hangs")
			assert.Equal(t, before, others.Load())

			short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
			defer stop()
			executed := wait.Later(func() (struct{}, error) { return struct{}{}, b.Execute(short, aWill) })
			_, err = wait.Returned(t, executed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

// A will is refused for good only once all servers have refused, as a session is.
func TestSASLOfAWillThatOneServerTakes(t *testing.T) {
	t.Parallel()
	refuses := func(int) (int32, []byte) { return -115, nil }
	one, _, _ := saslServer(t, refuses)
	two, _, _ := saslServer(t, refuses)
	three, _, _ := saslServer(t, accepting)
	for range 10 { // in any order
		b := must.Get(New(Config{Servers: []string{one, two, three}, SASL: ticketed(func(context.Context, string) (Exchange, error) { return once{}, nil })}))(t)
		require.NoError(t, b.Execute(t.Context(), aWill))
	}
	// Nor does a principal that the KDC does not know say anything of the other servers.
	_, port, _ := net.SplitHostPort(three)
	for range 10 {
		b := must.Get(New(Config{Servers: []string{one, "localhost:" + port}, SASL: ticketed(func(_ context.Context, host string) (Exchange, error) {
			if host != "localhost" {
				return nil, backend.ErrDenied
			}
			return once{}, nil
		})}))(t)
		require.NoError(t, b.Execute(t.Context(), aWill))
	}
}
