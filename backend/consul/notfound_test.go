package consul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/wait"
)

// newLeader has the servers' leader answer as one that has not read its log yet, where
// it does not wait for that: it knows of no session.
func (f *fixture) newLeader() (renewals *atomic.Int64, remove func()) {
	renewals = new(atomic.Int64)
	remove = f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		switch {
		case renews(r):
			renewals.Add(1)
			return consultest.Answer(http.StatusNotFound, "Session id '"+f.s.ID()+"' not found"), nil
		case informs(r) && !r.Asks("consistent"):
			return consultest.Answer(http.StatusOK, "[]"), nil
		}
		return r.Send()
	})
	return renewals, remove
}

// A renewal that finds no session says that it is lost, however long the window
// would last.
func TestPitfall36NotFound(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	notFound := f.countAnswers(renews, http.StatusNotFound)
	require.NoError(t, consultest.Destroy(f.Servers, f.s.ID()))
	go f.hasten(f.s)
	state, err := f.s.AwaitState(f.ctx, backend.Live)
	require.NoError(t, err)
	assert.Equal(t, backend.Lost, state)
	assert.NotZero(t, notFound.Load(), "it was not the renewal that said so")
	assert.True(t, time.Now().Before(f.s.Deadline()), "it waited for the window's end")
	_, err = f.s.Get(f.ctx, f.dir)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	assert.Len(t, f.Sessions(), 1, "it was carried on in another")
}

// A leader of the servers that is new finds no session where there is one: it goes on.
// What it answers is no renewal, and does not move the window.
func TestPitfall36NotFoundYet(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]consul.Config{
		"TTL":   {},
		"check": {Check: check, SessionTimeout: lasting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUpOn(t, consultest.Options{Config: cfg}, sharedServer(t))
			e := f.enqueue(f.s)
			states := f.recordStates()
			before := f.s.Deadline()
			renewals, remove := f.newLeader()
			go f.hasten(f.s)
			wait.For(t, "renewals", func() bool { return renewals.Load() >= 3 || f.s.State() == backend.Lost })
			after := f.s.Deadline()
			remove()
			f.awaitState(backend.Live)
			f.renewed()
			assert.NotContains(t, states(), backend.Lost)
			if cfg.Check == 0 { // a check that is passed moves it
				assert.Equal(t, before, after)
			}
			f.stands(e)
			assert.Len(t, f.Sessions(), 1, "it was carried on in another")
		})
	}
}

// Nor is it lost where nobody can tell, for as long as its window lasts.
func TestPitfall36NotFoundUnconfirmed(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	remove := f.handle(informs, answer(http.StatusInternalServerError, "Not ready to serve consistent reads"))
	reads := f.countAnswers(informs, http.StatusInternalServerError)
	require.NoError(t, consultest.Destroy(f.Servers, f.s.ID()))
	go f.hasten(f.s)
	wait.For(t, "attempts", func() bool { return reads.Load() >= 3 || f.s.State() == backend.Lost })
	assert.Equal(t, backend.Suspended, f.s.State())
	remove()
	state, err := f.s.AwaitState(f.ctx, backend.Suspended)
	require.NoError(t, err)
	assert.Equal(t, backend.Lost, state)
	assert.True(t, time.Now().Before(f.s.Deadline()), "it waited for the window's end")
}

// Such a leader says that it has ended a session which it does not know, and Close does
// not take its word for it.
func TestCloseAtANewLeader(t *testing.T) {
	t.Parallel()
	t.Run("ends it", func(t *testing.T) {
		t.Parallel()
		f := setUp(t)
		o := f.another()
		e := f.enqueue(f.s)
		f.newLeader()
		remove := f.handle(destroys, answer(http.StatusOK, "true"))
		asked := f.countAnswers(destroys, http.StatusOK)
		closing := later(func() (struct{}, error) { return struct{}{}, f.s.Close(f.ctx) })
		wait.For(t, "the first attempt", func() bool { return asked.Load() >= 1 })
		remove()
		returns(f, closing)
		assert.False(t, exists(t, f.Servers, f.s.ID()), "Close said that it had ended")
		_, err := o.s.Get(o.ctx, e.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry)
	})
	t.Run("or says so", func(t *testing.T) {
		t.Parallel()
		f := setUp(t)
		f.newLeader()
		f.handle(destroys, answer(http.StatusOK, "true"))
		require.ErrorContains(t, f.s.Close(f.ctx), "did not confirm")
		assert.True(t, exists(t, f.Servers, f.s.ID()))
	})
}
