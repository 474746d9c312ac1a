package etcd_test

import (
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// newRoot returns a key that nobody has used before.
func newRoot() string { return servicetest.NewRoot() }

// shared is the server of all tests that do it no harm.
var shared = servertest.Share(func() (*servertest.Etcd, error) {
	return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
})

// fixture is one process with one session and a directory.
type fixture struct {
	*etcdtest.Process
	servicetest.Fixture

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
	f := &fixture{Fixture: servicetest.NewFixture(t), Process: p}
	f.S = f.open(ttl)
	f.Enter(newRoot())
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
	f.T.Helper()
	o := &fixture{Fixture: f.Fixture, Process: etcdtest.NewProcess(f.T, f.Servers, nil)}
	o.S = o.open(ttl)
	return o
}

func (f *fixture) open(ttl time.Duration) *backend.Session {
	f.T.Helper()
	return servicetest.Open(f.Ctx, f.T, f.Backend, backend.OpenOptions{TTL: ttl})
}

// Enqueue remembers how many watches there were before, for armed.
func (f *fixture) Enqueue(s *backend.Session) backend.Entry {
	f.T.Helper()
	made := f.WatchesMade()
	e := f.Fixture.Enqueue(s)
	if s == f.S {
		f.enqueued, f.made = e.Key, made
	}
	return e
}

func (f *fixture) put(s *backend.Session, key, value string) backend.Entry {
	f.T.Helper()
	return f.Commit(s, backend.CompareAndSet(key, []byte(value), 0))[0]
}

// seat makes an exclusive entry in the directory.
func (f *fixture) seat(s *backend.Session) backend.Entry {
	f.T.Helper()
	return f.Commit(s, backend.CreateEphemeral(f.Dir+"/seat", nil))[0]
}

// armed starts an Await of entries that nobody awaited before, and returns once the servers have made
// its watch: since the fixture's session enqueued the entry, if it has enqueued one.
func (f *fixture) armed(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	before := f.WatchesMade()
	if own := f.enqueued; own != "" && slices.ContainsFunc(known, func(e backend.Entry) bool { return e.Key == own }) {
		before, f.enqueued = f.made, ""
	}
	waiting := f.Hangs(f.S, known...) // a watch may have been made ahead
	wait.For(f.T, "a watch", func() bool { return f.WatchesMade() > before })
	return waiting
}

// beats waits until a heartbeat is confirmed.
func (f *fixture) beats() {
	f.T.Helper()
	now := f.S.Deadline()
	wait.For(f.T, "a heartbeat", func() bool { return f.S.Deadline().After(now) })
}

// operator returns another client of the servers.
func (f *fixture) operator() *clientv3.Client { return etcdtest.Operator(f.T, f.Servers...) }

// puts returns a function by which an operator writes keys, with a lease or without.
func (f *fixture) puts() func(key string, opts ...clientv3.OpOption) {
	operator := f.operator()
	return func(key string, opts ...clientv3.OpOption) {
		f.T.Helper()
		must.Get(operator.Put(f.Ctx, key, "foreign", opts...))(f.T)
	}
}

// lease returns an operator's lease.
func (f *fixture) lease() clientv3.OpOption {
	f.T.Helper()
	lease := must.Get(f.operator().Grant(f.Ctx, 60))(f.T)
	return clientv3.WithLease(lease.ID)
}

// compact makes the servers forget the history before now.
func (f *fixture) compact(operator *clientv3.Client) {
	f.T.Helper()
	now := must.Get(operator.Put(f.Ctx, f.Dir+"-compacted", ""))(f.T)
	must.Get(operator.Compact(f.Ctx, now.Header.Revision, clientv3.WithCompactPhysical()))(f.T)
}

// remove deletes a key as an operator.
func (f *fixture) remove(key string) {
	f.T.Helper()
	must.Get(f.operator().Delete(f.Ctx, key))(f.T)
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
