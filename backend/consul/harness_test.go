package consul_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// newRoot returns a key that nobody has used before, and newName a name.
func newRoot() string { return servicetest.NewRoot() }
func newName() string { return path.Base(newRoot()) }

// fixture is one process with one session and a directory.
type fixture struct {
	*consultest.Process
	servicetest.Fixture
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
	f.S = f.open()
	f.Enter(newRoot())
	return f
}

// processOn makes a fixture without a session.
func processOn(t *testing.T, o consultest.Options, servers ...*servertest.Consul) *fixture {
	t.Helper()
	if o.Config.SessionTimeout == 0 {
		o.Config.SessionTimeout = lasting
	}
	return &fixture{Fixture: servicetest.NewFixture(t), Process: consultest.NewProcess(t, servers, o)}
}

// another makes another process with a session in the same directory.
func (f *fixture) another() *fixture {
	f.T.Helper()
	o := processOn(f.T, consultest.Options{}, f.Servers...)
	o.Dir, o.S = f.Dir, o.open()
	return o
}

func (f *fixture) open() *backend.Session {
	f.T.Helper()
	return servicetest.Open(f.Ctx, f.T, f.Backend, backend.OpenOptions{})
}

// renewed waits until a heartbeat is acknowledged that was sent after this call.
func (f *fixture) renewed() {
	f.T.Helper()
	f.renewedAfter(f.hasten)
}

// renewedByItself is renewed with the heartbeats as they come.
func (f *fixture) renewedByItself() {
	f.T.Helper()
	f.renewedAfter(func(*backend.Session) {})
}

func (f *fixture) renewedAfter(begin func(*backend.Session)) {
	f.T.Helper()
	for range 2 { // the first may have been pending
		before := f.S.Deadline()
		begin(f.S)
		wait.For(f.T, "a heartbeat", func() bool { return f.S.Deadline().After(before) })
	}
	f.AwaitState(f.S, backend.Live)
}

// hasten makes a session of the process send a heartbeat at once, as it does when a request is not
// answered. It blocks while the session is out of touch.
func (f *fixture) hasten(s *backend.Session) {
	key := newRoot()
	_, remove := f.first(1, under("kv"+key), answer(http.StatusServiceUnavailable, ""))
	defer remove()
	_, _ = s.Get(f.Ctx, key) // its result does not matter
}

// nothing is the entry of a key that has none.
var nothing backend.Entry

// await waits in the background, and returns when the blocking queries are there.
func (f *fixture) await(known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	asked, remove := f.count(blocking)
	defer remove()
	answer := f.Awaits(f.S, known...)
	wait.For(f.T, "blocking queries", func() bool { return int(asked.Load()) >= len(known) })
	return answer
}

// awaitList is await for a listing.
func (f *fixture) awaitList(known backend.Listing) <-chan wait.Result[backend.Listing] {
	f.T.Helper()
	asked, remove := f.count(both(blocking, asks("recurse")))
	defer remove()
	answer := f.AwaitsList(f.S, known)
	wait.For(f.T, "a blocking query", func() bool { return asked.Load() > 0 })
	return answer
}

// operator returns a client that is not elector's.
func (f *fixture) operator() *api.Client {
	f.T.Helper()
	return must.Get(consultest.Operator(f.Servers[0]))(f.T)
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
	ctx, cancel := context.WithCancel(f.Ctx)
	states := []backend.State{f.S.State()}
	var recording sync.WaitGroup
	recording.Go(func() {
		for {
			state, err := f.S.AwaitState(ctx, states[len(states)-1])
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
