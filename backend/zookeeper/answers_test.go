package zookeeper_test

import (
	"context"
	"fmt"
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

const throttled = -127 // ZooKeeper's code for a request that waited for too long in its queue

// One odd reply of any kind is not the outcome of a call, and ends no session.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const systemError, moved, unheardOf = -1, -118, -999
	for _, code := range []int32{throttled, systemError, moved, unheardOf} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel() // it mostly waits
			f := setUp(t, nil)
			odd := func(op int32) { f.RefuseReply(proxytest.MatchOp(op), code, 1) }
			e := f.Enqueue(f.S)
			for what, call := range map[string]struct {
				op int32
				do func() error
			}{
				"get":        {proxytest.OpGetData, func() error { _, err := f.S.Get(f.Ctx, e.Key); return err }},
				"list":       {proxytest.OpChildren2, func() error { _, err := f.S.List(f.Ctx, f.Dir); return err }},
				"await list": {proxytest.OpChildren2, func() error { _, err := f.S.AwaitList(f.Ctx, backend.Listing{Dir: f.Dir}); return err }},
				"await":      {proxytest.OpGetData, func() error { _, err := f.S.Await(f.Ctx, backend.Unknown(e.Key)); return err }},
				"condition":  {proxytest.OpMulti, func() error { return f.commitUnder(f.S, e) }},
			} {
				odd(call.op)
				require.NoError(t, call.do(), what)
			}
			if code != throttled { // which the server sends only if nothing was done
				odd(proxytest.OpCreate2)
				made := f.Enqueue(f.S)
				f.Lists(f.S, e, made) // it was done once
				odd(proxytest.OpDelete)
				_, err := f.S.Commit(f.Ctx, nil, backend.Delete(made))
				if err != nil { // for a Delete alone the reply is the only evidence
					require.ErrorIs(t, err, backend.ErrIndeterminate)
				}
				f.Gone(f.S, made.Key)
			}
			assert.NotEqual(t, backend.Lost, f.S.State())
		})
	}
}

// Replies that stay odd are reported after a session timeout, on a session that lives.
func TestOddAnswersThatStay(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(20*time.Second))
	f.RefuseReply(proxytest.MatchOp(proxytest.OpChildren2), throttled, 4096)
	_, err := f.S.List(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	assert.NotEqual(t, backend.Lost, f.S.State())
	assert.Equal(t, 1, f.Proxies[0].Accepted(), "links")
}

// Servers that accept less than Config.MaxRequest end the link at a longer request, and again at the
// same request on the next link. The campaign reports that, and does not flood them.
func TestServersTakeLess(t *testing.T) {
	t.Parallel()
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, sessionTimeout(20*time.Second))
	f.DropRequest(func(_ int32, payload []byte) bool { return len(payload) > 100<<10 }, 4096)
	ctx, cancel := context.WithCancel(f.Ctx)
	defer cancel()
	var said error
	e := f.Stand(elector.Config{
		Backend: f.Backend, Election: newRoot(), Value: make([]byte, 150<<10),
		Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) {
			said = r.Err
			cancel()
		}},
	})
	began := time.Now()
	_, err := e.Campaign(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, said, "jute.maxbuffer")
	t.Logf("%d links in %v: %v", f.Proxies[0].Accepted(), time.Since(began), said)
	assert.Less(t, f.Proxies[0].Accepted(), 80, "it floods the server with links")
	require.NoError(t, e.Close(context.Background()))
}

// A reply over Config.MaxResponse is reported to the call that asked for it, and to no other.
func TestAnswersThatAreTooLong(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	long := f.Commit(f.S, backend.Enqueue(f.Dir, make([]byte, 100<<10)))[0]
	other := f.Enqueue(f.S)
	small := f.another(func(cfg *zookeeper.Config) { cfg.MaxResponse = 64 << 10 })
	waiting := small.awaits(other)
	for range 3 {
		_, err := small.S.Get(f.Ctx, long.Key)
		require.ErrorIs(t, err, backend.ErrTooLarge)
		require.ErrorContains(t, err, "over Config.MaxResponse")
		for _, known := range []backend.Entry{backend.Unknown(long.Key), long} {
			_, err = small.S.Await(f.Ctx, known)
			require.ErrorIs(t, err, backend.ErrTooLarge)
		}
	}
	_, err := small.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, make([]byte, 100<<10)))
	require.ErrorIs(t, err, backend.ErrTooLarge, "it could not be read again")
	require.NoError(t, f.S.Discard(f.Ctx, other))
	wait.Value(f.T, waiting)
	assert.Equal(t, backend.Live, small.S.State())
	assert.Equal(t, 1, small.Proxies[0].Accepted(), "links")
}
