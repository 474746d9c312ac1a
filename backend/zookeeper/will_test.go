package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
)

// A server that enforces credentials accepts no closing request before it has them.
func TestWillPresentsCredentials(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, enforcing(t), known)
	w := must.Get(f.S.Will())(t)
	stranger, own := process(t, f.Servers, nil), process(t, f.Servers, known)
	require.ErrorIs(t, backend.Execute(f.Ctx, stranger.Backend, w), backend.ErrDenied)
	f.AwaitState(f.S, backend.Live) // the stranger has taken its link
	assert.Equal(t, 1, f.sessions())
	for range 2 { // nor does the second execution leave a session
		require.NoError(t, backend.Execute(f.Ctx, own.Backend, w))
		assert.Zero(t, f.sessions())
	}
}

// A closing request that is refused, or whose reply is lost, is sent again.
func TestWillIsExecutedUntilConfirmed(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	e := f.Enqueue(f.S)
	w := must.Get(f.S.Will())(t)
	by := process(t, f.Servers, nil)
	asked := by.counts(proxytest.MatchOp(proxytest.OpClose))
	release := by.TurnAway(proxytest.MatchOp(proxytest.OpClose), throttled)
	executing := wait.Later(func() (struct{}, error) { return struct{}{}, backend.Execute(f.Ctx, by.Backend, w) })
	wait.For(t, "it asks again and again", func() bool { return asked() > 2 })
	select {
	case r := <-executing:
		t.Fatalf("it returned %v", r.Err)
	default:
	}
	release()
	wait.Value(f.T, executing)
	f.S = f.open()
	f.Gone(f.S, e.Key)
}

// A will is executed at the next server if one accepts connections and sends nothing. The session itself lives on
// until then: its process sends heartbeats.
func TestWillAtAFrozenServer(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(time.Minute))
	w := must.Get(f.S.Will())(t)
	by := process(t, []string{f.server.Addr(), f.server.Addr()}, func(cfg *zookeeper.Config) { cfg.ConnectTimeout = 3 * time.Second })
	by.Proxies[0].Stall()
	require.NoError(t, backend.Execute(f.Ctx, by.Backend, w))
}
