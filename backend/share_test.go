package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

func open(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	s, err := b.Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close(context.Background()))
	})
	return s
}

func create(t *testing.T, s *backend.Session, key string) backend.Entry {
	t.Helper()
	made, err := s.Commit(t.Context(), nil, backend.CreateEphemeral(key, nil))
	require.NoError(t, err)
	return made[0]
}

func TestShareOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		shared := backend.Share(service, time.Second)
		a, b := open(t, shared), open(t, shared)
		if a.ID() != b.ID() || service.Stats().Sessions != 1 {
			t.Errorf("sessions %s and %s, %d in the service; want one", a.ID(), b.ID(), service.Stats().Sessions)
		}
		if a.TTL() != time.Second {
			t.Errorf("TTL %v, want that of Share", a.TTL())
		}
		create(t, a, "/a")
		create(t, b, "/b")

		assert.NoError(t, a.Close(t.Context()))
		if service.Entry("/a").Exists() || !service.Entry("/b").Exists() {
			t.Error("closing one handle must drop its own entries, and only those")
		}
		if b.State() != backend.Live {
			t.Error("closing one handle ended the session of the other")
		}
		assert.NoError(t, b.Close(t.Context()))
		if n := service.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions after the last Close, want 0", n)
		}
	})
}

func TestShareIsLostForAllAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("c")
		shared := backend.Share(client, 0)
		a, b := open(t, shared), open(t, shared)
		client.Expire()
		synctest.Wait()
		if a.State() != backend.Lost || b.State() != backend.Lost {
			t.Errorf("states %v and %v, want lost for all", a.State(), b.State())
		}
		c := open(t, shared)
		if c.State() != backend.Live || c.ID() == a.ID() {
			t.Errorf("session %s is %v after the loss of %s, want a new one", c.ID(), c.State(), a.ID())
		}
		// What is left of the lost session must not close the new one.
		assert.NoError(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
		create(t, c, "/c")
	})
}

// A session whose window has passed is given to nobody, though it may not be lost yet: its process was stopped, say.
func TestShareReplacesAnOverdueSession(t *testing.T) {
	var passed atomic.Bool
	shared := backend.Share(backend.Around(memory.New(memory.Options{}).Client("c"), func(s *backend.Session) backend.Layer {
		return backend.Layer{Life: overdue{s, &passed}}
	}), 0)
	a := open(t, shared)
	passed.Store(true)
	b := open(t, shared)
	assert.NotEqual(t, a.ID(), b.ID())
	passed.Store(false)
	assert.Equal(t, b.ID(), open(t, shared).ID())
}

type overdue struct {
	backend.Life
	passed *atomic.Bool
}

func (o overdue) Deadline() time.Time {
	if o.passed.Load() {
		return time.Now().Add(-time.Second)
	}
	return o.Life.Deadline()
}

func TestShareClosedHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := backend.Share(memory.New(memory.Options{}), 0)
		a, other := open(t, shared), open(t, shared)
		entry := create(t, other, "/other")
		blocked := make(chan error, 2)
		go func() {
			_, err := a.Await(t.Context(), entry)
			blocked <- err
		}()
		go func() {
			state, err := a.AwaitState(t.Context(), backend.Live)
			if state != backend.Lost || err != nil {
				t.Errorf("AwaitState: %v, %v; want lost", state, err)
			}
			blocked <- backend.ErrSessionLost
		}()
		synctest.Wait()
		assert.NoError(t, a.Close(t.Context()))
		for range 2 {
			if err := <-blocked; !errors.Is(err, backend.ErrSessionLost) {
				t.Errorf("blocked call: %v, want ErrSessionLost", err)
			}
		}
		if _, err := a.Commit(t.Context(), nil, backend.CreateEphemeral("/late", nil)); !errors.Is(err, backend.ErrSessionLost) {
			t.Errorf("Commit on a closed handle: %v, want ErrSessionLost", err)
		}
		if _, err := other.Get(t.Context(), "/late"); !errors.Is(err, backend.ErrNoEntry) {
			t.Errorf("Get of what a closed handle committed: %v, want ErrNoEntry", err)
		}
		if a.State() != backend.Lost {
			t.Errorf("state %v after Close, want lost", a.State())
		}
	})
}

// late returns a backend whose commits are answered when answer is closed; done is closed when
// a commit is done in the service.
func late(b backend.Backend) (slow backend.Backend, done, answer chan struct{}) {
	done, answer = make(chan struct{}), make(chan struct{})
	return backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		err := next(ctx)
		if c.Kind == backend.CallCommit {
			close(done)
			<-answer
		}
		return err
	}), done, answer
}

// A commit that is answered after Close is done, and says so: an error would say that
// nothing was written. What is ephemeral goes with the handle.
func TestShareCommitBesideClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		slow, done, answer := late(service)
		shared := backend.Share(slow, 0)
		a, other := open(t, shared), open(t, service)
		defer open(t, shared).Close(t.Context()) // so that the session goes on
		failed := make(chan error)
		go func() {
			_, err := a.Commit(t.Context(), nil, backend.CompareAndSet("/for-good", nil, 0), backend.CreateEphemeral("/seat", nil))
			failed <- err
		}()
		<-done
		assert.NoError(t, a.Close(t.Context()))
		close(answer)
		if err := <-failed; err != nil {
			t.Errorf("Commit: %v", err)
		}
		synctest.Wait()
		if _, err := other.Get(t.Context(), "/for-good"); err != nil {
			t.Errorf("Get of what was put: %v", err)
		}
		if _, err := other.Get(t.Context(), "/seat"); !errors.Is(err, backend.ErrNoEntry) {
			t.Errorf("Get of what was created: %v, want ErrNoEntry", err)
		}
	})
}

func TestShareRefusesAnotherTTL(t *testing.T) {
	shared := backend.Share(memory.New(memory.Options{}), time.Second)
	_, err := shared.Open(t.Context(), backend.OpenOptions{TTL: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "1m0s") || !strings.Contains(err.Error(), "1s") {
		t.Errorf("Open with another TTL: %v, want an error that names both", err)
	}
}

// A layer that only tells of a session's life leaves its calls, and their errors, as they are.
// What is answered beside an error is not passed on.
func TestLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory.New(memory.Options{}))
		const want = "memory: get /a: no such entry"
		if _, err := s.Around(backend.Layer{Life: s}).Get(t.Context(), "/a"); err == nil || err.Error() != want {
			t.Errorf("Get: %v, want %q", err, want)
		}
		create(t, s, "/a")
		lost := errors.New("lost")
		loses := s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if err := next(ctx); err != nil {
				return err
			}
			return lost
		}})
		if e, err := loses.Get(t.Context(), "/a"); err != lost || e.Exists() {
			t.Errorf("Get: %v, %v; want nothing but the layer's error", e, err)
		}
		if _, err := s.Commit(t.Context(), []backend.Condition{backend.IfExists(backend.Entry{Key: "/gone", Rev: 1})}); !strings.Contains(fmt.Sprint(err), "/gone") {
			t.Errorf("Commit: %v, want an error that names the guard", err)
		}
		assert.NoError(t, s.Close(t.Context()))
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, backend.ErrSessionLost) || !errors.Is(err, backend.ErrBadKey) {
			t.Errorf("Get of a bad key in a lost session: %v, want both errors", err)
		}
	})
}
