package consul_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

var roots atomic.Uint64

// newRoot returns a key that nobody has used before.
func newRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }

// fixture is one process with one session and a directory.
type fixture struct {
	*consultest.Process
	t   *testing.T
	ctx context.Context
	s   *backend.Session
	dir string
}

// setUp makes a fixture on the shared server.
func setUp(t *testing.T) *fixture {
	t.Helper()
	return setUpOn(t, consultest.Options{}, sharedServer(t))
}

// brief are the options of a process whose sessions last for ttl.
var brief = consultest.Options{Config: consul.Config{SessionTimeout: ttl}}

func setUpBrief(t *testing.T) *fixture {
	t.Helper()
	return setUpOn(t, brief, sharedServer(t))
}

func setUpOn(t *testing.T, o consultest.Options, servers ...*servertest.Consul) *fixture {
	t.Helper()
	f := processOn(t, o, servers...)
	f.s = f.open()
	f.enter(newRoot())
	return f
}

// enter makes a directory.
func (f *fixture) enter(dir string) {
	f.t.Helper()
	f.dir = dir
	f.commit(f.s, backend.CompareAndSet(dir, nil, 0))
}

// processOn makes a fixture without a session.
func processOn(t *testing.T, o consultest.Options, servers ...*servertest.Consul) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	if o.Config.SessionTimeout == 0 {
		o.Config.SessionTimeout = lasting
	}
	return &fixture{t: t, ctx: ctx, Process: consultest.NewProcess(t, servers, o)}
}

// another makes another process with a session in the same directory.
func (f *fixture) another() *fixture {
	f.t.Helper()
	o := processOn(f.t, consultest.Options{}, f.Servers...)
	o.dir, o.s = f.dir, o.open()
	return o
}

func (f *fixture) open() *backend.Session {
	f.t.Helper()
	return servicetest.Open(f.ctx, f.t, f.Backend, backend.OpenOptions{})
}

func (f *fixture) commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.t.Helper()
	return must.Get(s.Commit(f.ctx, nil, ops...))(f.t)
}

func (f *fixture) enqueue(s *backend.Session) backend.Entry {
	f.t.Helper()
	return f.commit(s, backend.Enqueue(f.dir, []byte("v")))[0]
}

// awaitState waits for a state, which must come before the session is lost.
func (f *fixture) awaitState(want backend.State) {
	f.t.Helper()
	servicetest.AwaitState(f.ctx, f.t, f.s, want)
}

// renewed waits until a heartbeat is acknowledged that was sent after this call.
func (f *fixture) renewed() {
	f.t.Helper()
	f.renewedAfter(f.hasten)
}

// renewedByItself is renewed with the heartbeats as they come.
func (f *fixture) renewedByItself() {
	f.t.Helper()
	f.renewedAfter(func(*backend.Session) {})
}

func (f *fixture) renewedAfter(begin func(*backend.Session)) {
	f.t.Helper()
	for range 2 { // the first may have been pending
		before := f.s.Deadline()
		begin(f.s)
		wait.For(f.t, "a heartbeat", func() bool { return f.s.Deadline().After(before) })
	}
	f.awaitState(backend.Live)
}

// lost waits until the session is lost.
func (f *fixture) lost() {
	f.t.Helper()
	f.awaitState(backend.Lost)
}

// hasten makes a session of the process send a heartbeat at once, as it does when a request is not
// answered. It blocks while the session is out of touch.
func (f *fixture) hasten(s *backend.Session) {
	key := newRoot()
	_, remove := f.first(1, under("kv"+key), answer(http.StatusServiceUnavailable, ""))
	defer remove()
	_, _ = s.Get(f.ctx, key) // its result does not matter
}

// lostAtDeadline waits for the session to be lost by itself, not before the end of its window. Package
// driver's tests, with fake time, check that it is not lost later.
func (f *fixture) lostAtDeadline() {
	f.t.Helper()
	f.lost()
	require.False(f.t, time.Now().Before(f.s.Deadline()), "lost before its window ended")
}

// returns waits for a result that must be no error.
func returns[T any](f *fixture, answer <-chan wait.Result[T]) {
	f.t.Helper()
	must.Get(wait.Returned(f.t, answer))(f.t)
}

// fails waits for a result that must be these errors.
func fails[T any](f *fixture, answer <-chan wait.Result[T], all ...error) {
	f.t.Helper()
	_, err := wait.Returned(f.t, answer)
	for _, want := range all {
		require.ErrorIs(f.t, err, want)
	}
}

// pending fails the test if there is a result yet.
func pending[T any](f *fixture, answer <-chan wait.Result[T]) {
	f.t.Helper()
	select {
	case r := <-answer:
		f.t.Fatalf("it returned %+v, %v", r.V, r.Err)
	default:
	}
}

// nothing is the entry of a key that has none.
var nothing backend.Entry

func same(a, b backend.Entry) bool { return a.Same(b) || !a.Exists() && !b.Exists() }

// follows checks that before is an entry's predecessor.
func (f *fixture) follows(before, e backend.Entry) {
	f.t.Helper()
	p := must.Get(f.s.Predecessor(f.ctx, e))(f.t)
	require.True(f.t, same(p, before), "%+v is before %+v, and not %+v", before, e, p)
}

// told checks that a wait returns want for the first entries that it is for.
func (f *fixture) told(waiting <-chan wait.Result[[]backend.Entry], want ...backend.Entry) {
	f.t.Helper()
	now := must.Get(wait.Returned(f.t, waiting))(f.t)
	require.GreaterOrEqual(f.t, len(now), len(want))
	for i, e := range want {
		assert.True(f.t, same(now[i], e), "%+v, want %+v", now[i], e)
	}
}

// stands checks that an entry is as it was.
func (f *fixture) stands(e backend.Entry) {
	f.t.Helper()
	got := must.Get(f.s.Get(f.ctx, e.Key))(f.t)
	assert.True(f.t, got.Same(e), "%+v, want %+v", got, e)
}

// await waits in the background, and returns when the blocking queries are there.
func (f *fixture) await(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.t.Helper()
	asked, remove := f.count(blocking)
	defer remove()
	answer := wait.Later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	wait.For(f.t, "blocking queries", func() bool { return int(asked.Load()) >= len(known) })
	return answer
}

// awaitList is await for a listing.
func (f *fixture) awaitList(known backend.Listing) <-chan wait.Result[backend.Listing] {
	f.t.Helper()
	asked, remove := f.count(both(blocking, asks("recurse")))
	defer remove()
	answer := wait.Later(func() (backend.Listing, error) { return f.s.AwaitList(f.ctx, known) })
	wait.For(f.t, "a blocking query", func() bool { return asked.Load() > 0 })
	return answer
}

// operator returns a client that is not elector's.
func (f *fixture) operator() *api.Client {
	f.t.Helper()
	return must.Get(consultest.Operator(f.Servers[0]))(f.t)
}

// snapshot backs the service up, and returns a function that restores it.
func snapshot(t *testing.T, user *api.Client) (restore func()) {
	t.Helper()
	backup := must.First(user.Snapshot().Save(nil))(t)
	defer backup.Close()
	saved := must.Get(io.ReadAll(backup))(t)
	return func() {
		t.Helper()
		require.NoError(t, user.Snapshot().Restore(nil, bytes.NewReader(saved)))
	}
}

// recordStates notes the states of the session until stop is called.
func (f *fixture) recordStates() (stop func() []backend.State) {
	ctx, cancel := context.WithCancel(f.ctx)
	states := []backend.State{f.s.State()}
	var recording sync.WaitGroup
	recording.Go(func() {
		for {
			state, err := f.s.AwaitState(ctx, states[len(states)-1])
			if err != nil {
				return
			}
			states = append(states, state)
			if state == backend.Lost {
				return
			}
		}
	})
	return func() []backend.State { cancel(); recording.Wait(); return states }
}
