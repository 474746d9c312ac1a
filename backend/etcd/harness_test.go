package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
)

var roots atomic.Uint64

// newRoot returns a key that nobody has used before.
func newRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }

// shared is the server of all tests that do it no harm.
var shared = servertest.Share(func() (*servertest.Etcd, error) {
	return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
})

// fixture is one process with one session and a directory.
type fixture struct {
	*etcdtest.Process
	t   *testing.T
	ctx context.Context
	s   *backend.Session
	dir string

	enqueued string // the key that s enqueued last, if it was not awaited yet
	made     int    // watches, before that
}

// setUp makes a fixture on the shared server; changes modify the client's configuration.
func setUp(t *testing.T, ttl time.Duration, changes ...func(*clientv3.Config)) *fixture {
	t.Helper()
	return setUpOn(t, ttl, func(cfg *clientv3.Config) {
		for _, change := range changes {
			change(cfg)
		}
	}, shared.ForTest(t).Addr())
}

func setUpOn(t *testing.T, ttl time.Duration, change func(*clientv3.Config), servers ...string) *fixture {
	t.Helper()
	return setUpWith(t, ttl, etcdtest.NewProcess(t, servers, change))
}

func setUpWith(t *testing.T, ttl time.Duration, p *etcdtest.Process) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	f := &fixture{t: t, ctx: ctx, Process: p}
	f.s = f.open(ttl)
	f.dir = newRoot()
	must.Get(f.s.Commit(ctx, nil, backend.CompareAndSet(f.dir, nil, 0)))(t)
	return f
}

// setUpTwo is setUp, plus another process.
func setUpTwo(t *testing.T, ttl time.Duration, changes ...func(*clientv3.Config)) (f, other *fixture) {
	t.Helper()
	f = setUp(t, ttl, changes...)
	return f, f.another(ttl)
}

// another returns another process, at the same servers and in the same directory.
func (f *fixture) another(ttl time.Duration) *fixture {
	f.t.Helper()
	o := &fixture{t: f.t, ctx: f.ctx, dir: f.dir, Process: etcdtest.NewProcess(f.t, f.Servers, nil)}
	o.s = o.open(ttl)
	return o
}

func (f *fixture) open(ttl time.Duration) *backend.Session {
	f.t.Helper()
	return servicetest.Open(f.ctx, f.t, f.Backend, backend.OpenOptions{TTL: ttl})
}

func (f *fixture) commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.t.Helper()
	return must.Get(s.Commit(f.ctx, nil, ops...))(f.t)
}

func (f *fixture) enqueue(s *backend.Session) backend.Entry {
	f.t.Helper()
	made := f.WatchesMade()
	e := f.commit(s, backend.Enqueue(f.dir, []byte("v")))[0]
	if s == f.s {
		f.enqueued, f.made = e.Key, made
	}
	return e
}

func (f *fixture) put(s *backend.Session, key, value string) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.CompareAndSet(key, []byte(value), 0))[0]
}

// seat makes an exclusive entry in the directory.
func (f *fixture) seat(s *backend.Session) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
}

// refused checks that a commit ends with each of these errors.
func (f *fixture) refused(op backend.Op, want ...error) {
	f.t.Helper()
	_, err := f.s.Commit(f.ctx, nil, op)
	for _, want := range want {
		require.ErrorIs(f.t, err, want, op.Kind)
	}
}

func (f *fixture) discard(s *backend.Session, entries ...backend.Entry) {
	f.t.Helper()
	for _, e := range entries {
		require.NoError(f.t, s.Discard(f.ctx, e))
	}
}

func (f *fixture) get(s *backend.Session, key string) backend.Entry {
	f.t.Helper()
	return must.Get(s.Get(f.ctx, key))(f.t)
}

// gone checks that there is no entry under a key.
func (f *fixture) gone(s *backend.Session, key string) {
	f.t.Helper()
	_, err := s.Get(f.ctx, key)
	require.ErrorIs(f.t, err, backend.ErrNoEntry)
}

func (f *fixture) list(s *backend.Session) backend.Listing {
	f.t.Helper()
	return must.Get(s.List(f.ctx, f.dir))(f.t)
}

// lists checks that these entries are enqueued in the directory, in this order.
func (f *fixture) lists(s *backend.Session, want ...backend.Entry) {
	f.t.Helper()
	var keys []string
	for _, e := range want {
		keys = append(keys, e.Key)
	}
	require.Equal(f.t, keys, f.list(s).Keys)
}

func (f *fixture) predecessor(s *backend.Session, e backend.Entry) backend.Entry {
	f.t.Helper()
	return must.Get(s.Predecessor(f.ctx, e))(f.t)
}

// follows checks that e is right behind another entry, or, if that is the zero Entry, behind nobody.
func (f *fixture) follows(s *backend.Session, e, before backend.Entry) {
	f.t.Helper()
	same(f, before, f.predecessor(s, e))
}

func same(f *fixture, want, got backend.Entry) {
	f.t.Helper()
	require.True(f.t, got.Same(want), "%+v, want %+v", got, want)
}

// commits starts a commit.
func (f *fixture) commits(s *backend.Session, ops ...backend.Op) <-chan wait.Result[[]backend.Entry] {
	return wait.Later(func() ([]backend.Entry, error) { return s.Commit(f.ctx, nil, ops...) })
}

// gets starts a Get.
func (f *fixture) gets(s *backend.Session, key string) <-chan wait.Result[backend.Entry] {
	return wait.Later(func() (backend.Entry, error) { return s.Get(f.ctx, key) })
}

// awaitsList starts an AwaitList.
func (f *fixture) awaitsList(s *backend.Session, known backend.Listing) <-chan wait.Result[backend.Listing] {
	return wait.Later(func() (backend.Listing, error) { return s.AwaitList(f.ctx, known) })
}

// awaits starts an Await.
func (f *fixture) awaits(s *backend.Session, known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	return wait.Later(func() ([]backend.Entry, error) { return s.Await(f.ctx, known...) })
}

// armed starts an Await of entries that nobody awaited before, and returns once the servers have made
// its watch: since the fixture's session enqueued the entry, if it has enqueued one.
func (f *fixture) armed(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.t.Helper()
	before := f.WatchesMade()
	if own := f.enqueued; own != "" && slices.ContainsFunc(known, func(e backend.Entry) bool { return e.Key == own }) {
		before, f.enqueued = f.made, ""
	}
	waiting := wait.Later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	wait.For(f.t, "a watch", func() bool { return f.WatchesMade() > before })
	return waiting
}

// state waits until the session is in a state, and fails if it is Lost first.
func (f *fixture) state(want backend.State) {
	f.t.Helper()
	f.stateOf(f.s, want)
}

func (f *fixture) stateOf(s *backend.Session, want backend.State) {
	f.t.Helper()
	servicetest.AwaitState(f.ctx, f.t, s, want)
}

// lostAtDeadline waits until the session is lost, and checks that this is when the window ends. Only
// make test-all checks that it is not long after: on a machine that stalls everything is late.
func (f *fixture) lostAtDeadline() {
	f.t.Helper()
	f.state(backend.Lost)
	late := time.Since(f.s.Deadline())
	require.GreaterOrEqual(f.t, late, time.Duration(0), "lost before the end of the window")
	require.True(f.t, testing.Short() || late < f.s.TTL()/2, "lost %v after the end of the window", late)
}

// neverLost checks at the end of the test that the session was never lost.
func (f *fixture) neverLost() {
	f.t.Helper()
	t, s := f.t, f.s
	t.Cleanup(func() { assert.NotEqual(t, backend.Lost, s.State(), "the session was lost") })
}

// beats waits until a heartbeat is confirmed.
func (f *fixture) beats() {
	f.t.Helper()
	now := f.s.Deadline()
	wait.For(f.t, "a heartbeat", func() bool { return f.s.Deadline().After(now) })
}

// newElector makes a candidate.
func newElector(f *fixture, b backend.Backend, strategy strategy.Strategy, election, id string) elector.Elector {
	f.t.Helper()
	e, err := elector.New(elector.Config{Backend: b, Strategy: strategy, Election: election, ID: id, TTL: 30 * time.Second})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = e.Close(f.ctx) }) // a session that is lost has nothing to confirm
	return e
}

// operator returns another client of the servers.
func (f *fixture) operator() *clientv3.Client { return etcdtest.Operator(f.t, f.Servers...) }

// puts returns a function by which an operator writes keys, with a lease or without.
func (f *fixture) puts() func(key string, opts ...clientv3.OpOption) {
	operator := f.operator()
	return func(key string, opts ...clientv3.OpOption) {
		f.t.Helper()
		must.Get(operator.Put(f.ctx, key, "foreign", opts...))(f.t)
	}
}

// lease returns an operator's lease.
func (f *fixture) lease() clientv3.OpOption {
	f.t.Helper()
	lease := must.Get(f.operator().Grant(f.ctx, 60))(f.t)
	return clientv3.WithLease(lease.ID)
}

// compact makes the servers forget the history before now.
func (f *fixture) compact(operator *clientv3.Client) {
	f.t.Helper()
	now := must.Get(operator.Put(f.ctx, f.dir+"-compacted", ""))(f.t)
	must.Get(operator.Compact(f.ctx, now.Header.Revision, clientv3.WithCompactPhysical()))(f.t)
}

// remove deletes a key as an operator.
func (f *fixture) remove(key string) {
	f.t.Helper()
	must.Get(f.operator().Delete(f.ctx, key))(f.t)
}

// returned returns the result of a call that succeeds.
func returned[T any](f *fixture, answer <-chan wait.Result[T]) T {
	f.t.Helper()
	return must.Get(wait.Returned(f.t, answer))(f.t)
}

// still checks that a call has not returned.
func still[T any](f *fixture, answer <-chan wait.Result[T]) {
	f.t.Helper()
	select {
	case r := <-answer:
		f.t.Fatalf("returned %+v, %v", r.V, r.Err)
	default:
	}
}

// seesGone checks that an Await returns with its first entry gone, and the others unchanged.
func seesGone(f *fixture, waiting <-chan wait.Result[[]backend.Entry], others ...backend.Entry) {
	f.t.Helper()
	got := returned(f, waiting)
	require.False(f.t, got[0].Exists(), "%+v", got[0])
	for i, e := range others {
		same(f, e, got[1+i])
	}
}

// unary passes each single request of a client to do, which may send it on.
func unary(do func(ctx context.Context, req any, send func() error) error) func(*clientv3.Config) {
	return func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return do(ctx, req, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
			}))
	}
}

// streams passes each stream of a method to do, which may open it.
func streams(method string, do func(context.Context, opening) (grpc.ClientStream, error)) func(*clientv3.Config) {
	return func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, of string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				open := func(ctx context.Context) (grpc.ClientStream, error) { return streamer(ctx, desc, cc, of, opts...) }
				if of != method {
					return open(ctx)
				}
				return do(ctx, open)
			}))
	}
}

type opening = func(context.Context) (grpc.ClientStream, error)

// wrapped wraps each stream of a method.
func wrapped(method string, wrap func(grpc.ClientStream) grpc.ClientStream) func(*clientv3.Config) {
	return streams(method, func(ctx context.Context, open opening) (grpc.ClientStream, error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return wrap(s), nil
	})
}

// received passes each message of a stream to change.
type received struct {
	grpc.ClientStream
	change func(m any)
}

func (s received) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.change(m)
	}
	return err
}
