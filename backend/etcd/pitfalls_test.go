package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// The tests named TestPitfallNN hold what the client library does wrong, or leaves
// to its user, against what this package makes of it. Number 25 is in
// faults_cluster_test.go, and 26 in faults_watch_test.go.

// concurrency.NewSession can return neither a session nor an error.
func TestPitfall21NeitherSessionNorError(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	closed := etcdtest.NewProcess(t, f.Servers, nil)
	require.NoError(t, closed.Client.Close())
	s, err := closed.Backend.Open(f.ctx, backend.OpenOptions{})
	require.ErrorContains(t, err, "the client is closed")
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	require.Nil(t, s)

	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	s, err = f.Backend.Open(ended, backend.OpenOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, s)

	away := etcdtest.NewProcess(t, f.Servers, nil)
	away.Suspend()
	s, err = away.Backend.Open(f.ctx, backend.OpenOptions{TTL: 2 * time.Second})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.Nil(t, s)
	require.NoError(t, f.ctx.Err(), "no server could be reached")
}

// The client reckons a lease's end from the answer; the server does from the
// request, which on a slow link is much sooner.
func TestPitfall22DeadlineFromTheRequest(t *testing.T) {
	t.Parallel()
	const delay = 400 * time.Millisecond
	f := setUp(t, 20*time.Second)
	other := f.another(30 * time.Second)
	e := f.enqueue(f.s)
	f.Each(func(x *proxytest.Proxy) { x.Delay(delay, 0) })
	for i := range 2 {
		before := f.s.Deadline()
		wait.For(t, "a heartbeat on the slow link", func() bool { return f.s.Deadline().After(before) })
		if i > 0 { // the first may have been sent before the link was slow
			assert.LessOrEqual(t, time.Until(f.s.Deadline()), f.s.TTL()*7/8-2*delay, "it is reckoned from the answer")
		}
	}
	f.Each((*proxytest.Proxy).Stall)
	_, err := other.s.Await(f.ctx, e)
	require.NoError(t, err)
	require.False(t, time.Now().Before(f.s.Deadline()), "the server let it expire within its window")
	f.state(backend.Lost)
	f.Each((*proxytest.Proxy).Unstall)
}

// The client waits for the first answer to a keep-alive as long as its own
// DialTimeout or 5 s, whatever the lease's time.
func TestPitfall23FirstHeartbeatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, 10*time.Second, func(cfg *clientv3.Config) { cfg.DialTimeout = time.Hour }, sharedServer(t).Addr())
	s := f.open(10 * time.Second)
	f.Each((*proxytest.Proxy).StallToClient)
	for state := s.State(); state != backend.Lost; {
		var err error
		state, err = s.AwaitState(f.ctx, state)
		require.NoError(t, err)
	}
	f.Each((*proxytest.Proxy).Unstall)
}

// A keep-alive channel says nothing of why it was closed. A session says that it is
// lost, in every call.
func TestPitfall24LossIsReported(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	e := f.enqueue(f.s)
	waiting := f.armed(e)
	state := later(func() (backend.State, error) { return f.s.AwaitState(f.ctx, backend.Live) })
	listing, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	listed := later(func() (backend.Listing, error) {
		for {
			l, err := f.s.AwaitList(f.ctx, listing)
			if err != nil {
				return l, err
			}
			listing = l // its own entry goes with the session
		}
	})
	f.Expire()
	_, err = receive(f, listed)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	got, err := receive(f, state)
	require.NoError(t, err)
	assert.NotEqual(t, backend.Live, got)
	f.state(backend.Lost)
	// The own entry's end may have been told first.
	if both, err := receive(f, waiting); err == nil {
		assert.False(t, both[0].Exists())
	} else {
		require.ErrorIs(t, err, backend.ErrSessionLost)
	}
	_, err = f.s.Commit(f.ctx, nil, backend.CompareAndSet(f.dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrSessionLost)
	require.ErrorIs(t, f.s.Discard(f.ctx, e), backend.ErrSessionLost)
}

// What cleans up is bounded by the caller's context, and goes on by itself.
func TestPitfall27CleanUpIsBounded(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	e := f.enqueue(f.s)
	f.Each((*proxytest.Proxy).Stall)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	sending, sent := context.WithCancel(f.ctx)
	f.LoseRequest(func(*etcdserverpb.TxnRequest) bool { sent(); return false })
	_, err := f.s.Commit(sending, nil, backend.Enqueue(f.dir, nil))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.ErrorIs(t, f.s.Discard(short(), e), context.DeadlineExceeded)
	_, err = f.s.Get(short(), f.dir)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = f.s.Await(short(), backend.Unknown(f.dir))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.Each((*proxytest.Proxy).Unstall)
	other := f.another(30 * time.Second)
	wait.For(t, "neither the dropped entry nor a ghost", func() bool {
		l, err := other.s.List(f.ctx, f.dir)
		require.NoError(t, err)
		return len(l.Keys) == 0
	})

	// Close, too, and it says that nothing was confirmed.
	f.Each((*proxytest.Proxy).Stall)
	require.ErrorIs(t, f.s.Close(short()), context.DeadlineExceeded)
	f.Each((*proxytest.Proxy).Unstall)
}

// concurrency.Election is not to be shared between goroutines. A session is.
func TestPitfall28ManyGoroutines(t *testing.T) {
	t.Parallel()
	f := setUp(t, 20*time.Second)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
				if !assert.NoError(t, err) {
					return
				}
				before, err := f.s.Predecessor(f.ctx, made[0])
				assert.NoError(t, err)
				if before.Exists() {
					assert.Less(t, before.Rev, made[0].Rev)
					_, err = f.s.Await(f.ctx, made[0], before)
					assert.NoError(t, err)
				}
				assert.NoError(t, f.s.Discard(f.ctx, made[0]))
			}
		})
	}
	wg.Wait()
	l, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Empty(t, l.Keys)
}

// Two candidates of one session are two candidates.
func TestPitfall29TwoCandidatesOfOneSession(t *testing.T) {
	f := setUp(t, 30*time.Second)
	for _, strategy := range []elector.Strategy{fair.New(), unfair.New()} {
		t.Run(strategy.Name(), func(t *testing.T) {
			f.t = t
			election, b := f.dir+"/"+strategy.Name(), backend.Share(f.Backend, 30*time.Second)
			first, second := newElector(f, b, strategy, election, "1"), newElector(f, b, strategy, election, "2")
			term, err := first.Campaign(f.ctx)
			require.NoError(t, err)
			waiting := later(func() (*elector.Term, error) { return second.Campaign(f.ctx) })
			if strategy.Name() == "fair" {
				wait.For(t, "both stand", func() bool { return len(candidates(f, first)) == 2 })
			}
			still(f, waiting)
			require.NoError(t, term.Resign(f.ctx))
			next, err := receive(f, waiting)
			require.NoError(t, err)
			assert.Greater(t, next.Token(), term.Token())
			assert.Equal(t, term.Guard().Session.ID(), next.Guard().Session.ID())
		})
	}
}

// counted counts the requests of a process by method.
type counted struct {
	sync.Mutex
	methods map[string]int
}

func (c *counted) add(cfg *clientv3.Config) {
	c.methods = make(map[string]int)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.Lock()
			c.methods[method]++
			c.Unlock()
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
}

// since returns how many calls of the store there were during do.
func (c *counted) during(do func()) int {
	count := func() int {
		c.Lock()
		defer c.Unlock()
		return c.methods[etcdserverpb.KV_Txn_FullMethodName] + c.methods[etcdserverpb.KV_Range_FullMethodName]
	}
	before := count()
	do()
	return count() - before
}

// What the steps of an election cost: round trips to the store.
func TestRoundTrips(t *testing.T) {
	var calls counted
	f := setUpOn(t, time.Minute, calls.add, sharedServer(t).Addr())
	var e, next, before backend.Entry
	step := func(what string, most int, do func()) {
		t.Helper()
		n := calls.during(do)
		t.Logf("%s: %d", what, n)
		assert.LessOrEqual(t, n, most, what)
	}
	var err error
	step("an uncontended enqueue", 1, func() { e = f.enqueue(f.s) })
	step("the predecessor of the first", 0, func() {
		before, err = f.s.Predecessor(f.ctx, e)
		require.NoError(t, err)
		require.False(t, before.Exists())
	})
	step("a contended enqueue", 2, func() { next = f.enqueue(f.s) })
	step("a predecessor", 1, func() {
		before, err = f.s.Predecessor(f.ctx, next)
		require.NoError(t, err)
		require.True(t, before.Same(e), "%+v", before)
	})
	var waiting <-chan result[[]backend.Entry]
	step("to wait", 1, func() { waiting = f.armed(next, before) })
	step("a delete and a handover", 1, func() {
		f.commit(f.s, backend.Delete(e))
		got, err := receive(f, waiting)
		require.NoError(t, err)
		require.False(t, got[1].Exists())
	})
	step("a guarded write", 1, func() {
		_, err := f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(next)}, backend.CompareAndSet(f.dir+"/x", nil, 0))
		require.NoError(t, err)
	})
	step("a read", 1, func() {
		_, err := f.s.Get(f.ctx, f.dir)
		require.NoError(t, err)
	})
}
