package consul_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

var roots atomic.Uint64

// newRoot is a key that nobody used before.
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
	f.dir = newRoot()
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
	return f
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
	s, err := f.Backend.Open(f.ctx, backend.OpenOptions{})
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
	return f.commit(s, backend.Enqueue(f.dir, []byte("v")))[0]
}

// awaitState waits for a state, which must come before the session is lost.
func (f *fixture) awaitState(want backend.State) {
	f.t.Helper()
	for state := f.s.State(); state != want; {
		require.NotEqual(f.t, backend.Lost, state)
		var err error
		state, err = f.s.AwaitState(f.ctx, state)
		require.NoError(f.t, err)
	}
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
	for range 2 { // the first may have been on its way
		before := f.s.Deadline()
		begin(f.s)
		wait.For(f.t, "a heartbeat", func() bool { return f.s.Deadline().After(before) })
	}
	f.awaitState(backend.Live)
}

// hasten has a session of the process send a heartbeat at once, as it does when a request is not
// answered. It blocks while the session is out of touch.
func (f *fixture) hasten(s *backend.Session) {
	var failed atomic.Bool
	key := newRoot()
	defer f.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
		if path(request, "kv"+key) && !failed.Swap(true) {
			return consultest.Answer(http.StatusServiceUnavailable, ""), nil
		}
		return send()
	})()
	_, _ = s.Get(f.ctx, key) // what becomes of it is of no concern
}

// lostAtDeadline waits for the session to be lost by itself, not before the end of its window. That
// it is not lost later either package driver's tests hold, where time is fake.
func (f *fixture) lostAtDeadline() {
	f.t.Helper()
	for state := f.s.State(); state != backend.Lost; {
		var err error
		state, err = f.s.AwaitState(f.ctx, state)
		require.NoError(f.t, err)
	}
	require.False(f.t, time.Now().Before(f.s.Deadline()), "lost before its window ended")
}

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
		stacks := make([]byte, 1<<20)
		f.t.Fatalf("it hangs:\n%s", stacks[:runtime.Stack(stacks, true)])
		panic("unreachable")
	}
}

// await waits in the background, and returns when the blocking queries are there.
func (f *fixture) await(known ...backend.Entry) <-chan result[[]backend.Entry] {
	f.t.Helper()
	var asked atomic.Int64
	remove := f.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
		if consultest.Blocking(request) {
			asked.Add(1)
		}
		return send()
	})
	defer remove()
	answer := later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	wait.For(f.t, "blocking queries", func() bool { return int(asked.Load()) >= len(known) })
	return answer
}

// operator is a client that is not elector's.
func (f *fixture) operator() *api.Client {
	f.t.Helper()
	client, err := consultest.Operator(f.Servers[0])
	require.NoError(f.t, err)
	return client
}

// path tells whether the request is for this part of the API.
func path(request *http.Request, part string) bool {
	return strings.HasPrefix(request.URL.Path, "/v1/"+part)
}

// answering makes all requests that match get this answer.
func (f *fixture) answering(match func(*http.Request) bool, status int, text string) (remove func()) {
	return f.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
		if match(request) {
			return consultest.Answer(status, text), nil
		}
		return send()
	})
}

func every(*http.Request) bool    { return true }
func renews(r *http.Request) bool { return path(r, "session/renew") }

// countTxns counts the transactions that are sent from now on, looks left out.
func (f *fixture) countTxns() *atomic.Int64 {
	var sent atomic.Int64
	f.Intercept(func(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
		if consultest.Txn(request, body) != nil && !looks(request, body) {
			sent.Add(1)
		}
		return send()
	})
	return &sent
}
