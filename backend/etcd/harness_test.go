package etcd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

var roots atomic.Uint64

// newRoot is a key that nobody used before.
func newRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }

// shared is the server of all tests that do it no harm.
var shared = servertest.Share(func() (*servertest.Etcd, error) {
	return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
})

func sharedServer(t *testing.T) *servertest.Etcd {
	t.Helper()
	return shared.ForTest(t)
}

// fixture is one process with one session and a directory.
type fixture struct {
	*etcdtest.Process
	t   *testing.T
	ctx context.Context
	s   *backend.Session
	dir string

	enqueued string // the key that s has enqueued last, if it was not awaited yet
	made     int    // watches, before that
}

func setUp(t *testing.T, ttl time.Duration) *fixture {
	t.Helper()
	return setUpOn(t, ttl, nil, sharedServer(t).Addr())
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
	_, err := f.s.Commit(ctx, nil, backend.CompareAndSet(f.dir, nil, 0))
	require.NoError(t, err)
	return f
}

// another is a process of its own, at the same servers and in the same directory.
func (f *fixture) another(ttl time.Duration) *fixture {
	f.t.Helper()
	o := &fixture{t: f.t, ctx: f.ctx, dir: f.dir, Process: etcdtest.NewProcess(f.t, f.Servers, nil)}
	o.s = o.open(ttl)
	return o
}

func (f *fixture) open(ttl time.Duration) *backend.Session {
	f.t.Helper()
	s, err := f.Backend.Open(f.ctx, backend.OpenOptions{TTL: ttl})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // those that look at its error close it themselves
	})
	return s
}

func (f *fixture) commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.t.Helper()
	made, err := s.Commit(f.ctx, nil, ops...)
	require.NoError(f.t, err)
	return made
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

// awaits starts an Await.
func (f *fixture) awaits(s *backend.Session, known ...backend.Entry) <-chan result[[]backend.Entry] {
	return later(func() ([]backend.Entry, error) { return s.Await(f.ctx, known...) })
}

// state waits until the session is in a state, which is not Lost unless that is
// wanted.
func (f *fixture) state(want backend.State) {
	f.t.Helper()
	for state := f.s.State(); state != want; {
		require.NotEqual(f.t, backend.Lost, state, "lost")
		var err error
		state, err = f.s.AwaitState(f.ctx, state)
		require.NoError(f.t, err)
	}
}

// lostAtDeadline waits until the session is lost, and checks that this is when the
// window ends. That it is not long after is left to make test-all: all is late on a machine
// that stands still.
func (f *fixture) lostAtDeadline() {
	f.t.Helper()
	f.state(backend.Lost)
	late := time.Since(f.s.Deadline())
	require.GreaterOrEqual(f.t, late, time.Duration(0), "lost before the end of the window")
	require.True(f.t, testing.Short() || late < f.s.TTL()/2, "lost %v after the end of the window", late)
}

// operator is another client of the servers.
func (f *fixture) operator() *clientv3.Client { return etcdtest.Operator(f.t, f.Servers...) }

// later runs a call and returns what it returns.
func later[T any](do func() (T, error)) <-chan result[T] {
	answer := make(chan result[T], 1)
	go func() {
		v, err := do()
		answer <- result[T]{v, err}
	}()
	return answer
}

type result[T any] struct {
	v   T
	err error
}

func receive[T any](f *fixture, answer <-chan result[T]) (T, error) {
	f.t.Helper()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-f.ctx.Done():
		f.t.Fatal("it hangs")
		panic("unreachable")
	}
}
