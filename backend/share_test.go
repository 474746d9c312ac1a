package backend_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

func open(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

func create(t *testing.T, s *backend.Session, key string) backend.Entry {
	t.Helper()
	made := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral(key, nil)))(t)
	return made[0]
}

func TestShareOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		shared := backend.Share(service, time.Second)
		a, b := open(t, shared), open(t, shared)
		assert.Equal(t, a.ID(), b.ID())
		assert.Equal(t, 1, service.Stats().Sessions)
		assert.Equal(t, time.Second, a.TTL())
		create(t, a, "/a")
		create(t, b, "/b")

		assert.NoError(t, a.Close(t.Context()))
		assert.False(t, service.Entry("/a").Exists(), "closing one handle must drop its own entries")
		assert.True(t, service.Entry("/b").Exists(), "and only those")
		assert.Equal(t, backend.Live, b.State(), "closing one handle ended the session of the other")
		assert.NoError(t, b.Close(t.Context()))
		assert.Zero(t, service.Stats().Sessions, "after the last Close")
	})
}

func TestShareIsLostForAllAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("c")
		shared := backend.Share(client, 0)
		a, b := open(t, shared), open(t, shared)
		client.Expire()
		synctest.Wait()
		assert.Equal(t, []backend.State{backend.Lost, backend.Lost}, []backend.State{a.State(), b.State()}, "lost for all")
		c := open(t, shared)
		assert.Equal(t, backend.Live, c.State())
		assert.NotEqual(t, a.ID(), c.ID())
		// Closing the handles of the lost session must not close the new one.
		assert.NoError(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
		create(t, c, "/c")
	})
}

// Open shares no session whose window has passed, even if it is not lost yet.
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
			assert.NoError(t, err)
			assert.Equal(t, backend.Lost, state)
			blocked <- backend.ErrSessionLost
		}()
		synctest.Wait()
		assert.NoError(t, a.Close(t.Context()))
		for range 2 {
			assert.ErrorIs(t, <-blocked, backend.ErrSessionLost, "blocked call")
		}
		assert.ErrorIs(t, must.Err(a.Commit(t.Context(), nil, backend.CreateEphemeral("/late", nil))), backend.ErrSessionLost, "of a closed handle")
		assert.ErrorIs(t, must.Err(other.Get(t.Context(), "/late")), backend.ErrNoEntry, "what a closed handle committed")
		assert.Equal(t, backend.Lost, a.State())
	})
}

// late returns a backend whose commits return when answer is closed; it closes done when the service has
// done a commit.
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

// A commit that is answered after Close returns nil: an error would say that nothing was written. Its
// ephemeral entries go with the handle.
func TestShareCommitBesideClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		slow, done, answer := late(service)
		shared := backend.Share(slow, 0)
		a, other := open(t, shared), open(t, service)
		defer open(t, shared).Close(t.Context()) // keeps the session open
		committed := wait.Later(func() ([]backend.Entry, error) {
			return a.Commit(t.Context(), nil, backend.CompareAndSet("/for-good", nil, 0), backend.CreateEphemeral("/seat", nil))
		})
		<-done
		assert.NoError(t, a.Close(t.Context()))
		close(answer)
		assert.NoError(t, (<-committed).Err)
		synctest.Wait()
		must.Get(other.Get(t.Context(), "/for-good"))(t)
		assert.ErrorIs(t, must.Err(other.Get(t.Context(), "/seat")), backend.ErrNoEntry)
	})
}

func TestShareRefusesAnotherTTL(t *testing.T) {
	shared := backend.Share(memory.New(memory.Options{}), time.Second)
	_, err := shared.Open(t.Context(), backend.OpenOptions{TTL: time.Minute})
	assert.ErrorContains(t, err, "1m0s")
	assert.ErrorContains(t, err, "1s")
}

// A layer that only replaces a session's Life leaves its calls and their errors as they are, and the
// results of a call that fails are not passed on.
func TestLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory.New(memory.Options{}))
		assert.EqualError(t, must.Err(s.Around(backend.Layer{Life: s}).Get(t.Context(), "/a")), "memory: get /a: no such entry")
		create(t, s, "/a")
		lost := errors.New("lost")
		loses := s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if err := next(ctx); err != nil {
				return err
			}
			return lost
		}})
		e, err := loses.Get(t.Context(), "/a")
		assert.True(t, err == lost && !e.Exists(), "%v, %v; want nothing but the layer's error", e, err)
		_, err = s.Commit(t.Context(), []backend.Condition{backend.IfExists(backend.Entry{Key: "/gone", Rev: 1})})
		assert.ErrorContains(t, err, "/gone", "it names the guard")
		assert.NoError(t, s.Close(t.Context()))
		_, err = s.Get(t.Context(), "a")
		assert.ErrorIs(t, err, backend.ErrSessionLost)
		assert.ErrorIs(t, err, backend.ErrBadKey)
	})
}
