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
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/fair"
)

// One odd answer, whatever it is, is not the outcome of a call, and ends no session.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const systemError, moved, unheardOf = -1, -118, -999
	for _, code := range []int32{throttled, systemError, moved, unheardOf} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel() // it mostly waits
			f := setUp(t, nil)
			odd := func(ops ...int32) {
				for _, op := range ops {
					f.Proxies[0].RefuseReply(proxytest.MatchOp(op), code, 1)
				}
			}
			e := f.enqueue(f.s)
			odd(proxytest.OpGetData)
			_, err := f.s.Get(f.ctx, e.Key)
			require.NoError(t, err, "get")
			odd(proxytest.OpChildren2)
			l, err := f.s.List(f.ctx, f.dir)
			require.NoError(t, err, "list")
			odd(proxytest.OpChildren2)
			_, err = f.s.AwaitList(f.ctx, backend.Listing{Dir: f.dir})
			require.NoError(t, err, "await list")
			odd(proxytest.OpGetData)
			_, err = f.s.Await(f.ctx, backend.Unknown(e.Key))
			require.NoError(t, err, "await")
			odd(proxytest.OpMulti)
			_, err = f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)})
			require.NoError(t, err, "guard")
			if code != throttled { // which is said of what was not done
				odd(proxytest.OpMulti)
				made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, []byte("x")))
				require.NoError(t, err, "commit")
				l, err = f.s.List(f.ctx, f.dir)
				require.NoError(t, err)
				assert.Equal(t, []string{e.Key, made[0].Key}, l.Keys, "it was done once")
				odd(proxytest.OpDelete)
				_, err = f.s.Commit(f.ctx, nil, backend.Delete(made[0]))
				if err != nil { // of one who deletes alone the answer is all that tells
					require.ErrorIs(t, err, backend.ErrIndeterminate)
				}
				_, err = f.s.Get(f.ctx, made[0].Key)
				require.ErrorIs(t, err, backend.ErrNoEntry)
			}
			assert.NotEqual(t, backend.Lost, f.s.State())
		})
	}
}

// Answers that stay odd are told after a session timeout, on a session that lives.
func TestOddAnswersThatStay(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(20*time.Second))
	f.Proxies[0].RefuseReply(proxytest.MatchOp(proxytest.OpChildren2), throttled, 4096)
	_, err := f.s.List(f.ctx, f.dir)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	assert.NotEqual(t, backend.Lost, f.s.State())
	links := f.Proxies[0].Accepted()
	assert.Equal(t, 1, links, "links")
}

// Servers that take less than Config.MaxRequest end the link at a longer request, and at the
// same one on the next link. The campaign says so, and does not flood them.
func TestServersTakeLess(t *testing.T) {
	t.Parallel()
	server := servertest.SharedZooKeeper(t)
	p := zktest.NewProcess(t, []string{server.Addr()}, sessionTimeout(20*time.Second))
	p.Proxies[0].DropRequest(func(_ int32, payload []byte) bool { return len(payload) > 100<<10 }, 4096)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	var said error
	e, err := elector.New(elector.Config{
		Backend: p.Backend, Strategy: fair.New(), Election: newRoot(), ID: "a", Value: make([]byte, 150<<10),
		Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) {
			said = r.Err
			cancel()
		}},
	})
	require.NoError(t, err)
	began := time.Now()
	_, err = e.Campaign(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, said, "jute.maxbuffer")
	t.Logf("%d links in %v: %v", p.Proxies[0].Accepted(), time.Since(began), said)
	assert.Less(t, p.Proxies[0].Accepted(), 80, "it floods the server with links")
	require.NoError(t, e.Close(context.Background()))
}

// An answer over Config.MaxResponse is told to the call that asked for it, and nobody else
// hears of it.
func TestAnswersThatAreTooLong(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	long := f.commit(f.s, backend.Enqueue(f.dir, make([]byte, 100<<10)))[0]
	other := f.enqueue(f.s)
	small := zktest.NewProcess(t, f.Servers, func(cfg *zookeeper.Config) {
		cfg.MaxResponse = 64 << 10
	})
	s, err := small.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(f.ctx)
	waiting := later(func() ([]backend.Entry, error) { return s.Await(f.ctx, other) })
	for range 3 {
		_, err = s.Get(f.ctx, long.Key)
		require.ErrorIs(t, err, backend.ErrTooLarge)
		require.ErrorContains(t, err, "over Config.MaxResponse")
		_, err = s.Await(f.ctx, backend.Unknown(long.Key))
		require.ErrorIs(t, err, backend.ErrTooLarge)
		_, err = s.Await(f.ctx, long)
		require.ErrorIs(t, err, backend.ErrTooLarge)
	}
	_, err = s.Commit(f.ctx, nil, backend.Enqueue(f.dir, make([]byte, 100<<10)))
	require.ErrorIs(t, err, backend.ErrTooLarge, "it could not be read again")
	require.NoError(t, f.s.Discard(f.ctx, other))
	_, err = receive(f, waiting)
	require.NoError(t, err)
	assert.Equal(t, backend.Live, s.State())
	assert.Equal(t, 1, small.Proxies[0].Accepted(), "links")
}
