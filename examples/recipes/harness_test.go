package main

import (
	"context"
	"crypto/rand"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

// shared has a server of each service, by name.
var shared = make(map[string]*servertest.Shared[services.Server])

func init() {
	for _, s := range services.All {
		shared[s.Name] = servertest.Share(s.Start)
	}
}

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// onServers runs a test on a server of each service, which all tests share. It uses only what is below key.
func onServers(t *testing.T, f func(t *testing.T, b backend.Backend, key string)) {
	t.Parallel()
	services.OnEach(t, func(t *testing.T, s services.Service) {
		t.Parallel()
		b := must.Get(dial.Open(t.Context(), s.URL(shared[s.Name].ForTest(t).Addr(), time.Minute)))(t)
		t.Cleanup(func() { assert.NoError(t, b.Close()) })
		f(t, b, "/recipes/"+rand.Text())
	})
}

// onMemory runs a test in a bubble. s is a session, and open returns more.
func onMemory(t *testing.T, f func(t *testing.T, svc *memory.Service, s *backend.Session)) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		f(t, svc, open(t, svc))
	})
}

// open opens a session that ends with the test. Closing it earlier is a crash of which the service hears at
// once.
func open(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // it may be lost
	})
	return s
}

// around passes each call of a session through f.
func around(s *backend.Session, f func(c *backend.Call, next func() error) error) *backend.Session {
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		return f(c, func() error { return next(ctx) })
	}})
}

// before calls f once, before the first call that matches.
func before(s *backend.Session, matches func(c *backend.Call) bool, f func()) *backend.Session {
	once := sync.OnceFunc(f)
	return around(s, func(c *backend.Call, next func() error) error {
		if matches(c) {
			once()
		}
		return next()
	})
}

// commits matches commits with an op of a kind.
func commits(kind backend.OpKind) func(c *backend.Call) bool {
	return func(c *backend.Call) bool { return c.Kind == backend.CallCommit && memory.Kind(kind)(c.Ops) }
}

// A doing is a call in the background of a bubble.
type doing[T any] struct {
	got  T
	err  error
	done chan struct{}
}

func begin[T any](f func() (T, error)) *doing[T] {
	d := &doing[T]{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.got, d.err = f()
	}()
	return d
}

// blocks holds that the call waits, when all others do.
func (d *doing[T]) blocks(t *testing.T, what string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-d.done:
		require.Fail(t, "it does not wait", "%s: %v", what, d.err)
	default:
	}
}

func (d *doing[T]) wait(t *testing.T) T {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(time.Hour):
		require.Fail(t, "it does not end")
	}
	return must.Get(d.got, d.err)(t)
}

// during runs f until the test ends, or stop is called.
func during(t *testing.T, f func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	running := begin(func() (any, error) { return nil, f(ctx) })
	stop = func() error {
		cancel()
		<-running.done
		return running.err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}
