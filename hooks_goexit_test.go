package elector_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// apart calls do on a goroutine of its own, which do may end.
func apart(do func()) {
	ended := make(chan struct{})
	go func() { defer close(ended); do() }()
	<-ended
}

// wins campaigns with e until it has a term: user code may end the goroutine of a campaign.
func wins(t *testing.T, ctx context.Context, e elector.Elector) (term *elector.Term) {
	t.Helper()
	for term == nil {
		require.NoError(t, ctx.Err(), "nobody is elected")
		apart(func() { term, _ = e.Campaign(ctx) })
	}
	return term
}

// tour takes an elector through everything that hooks report, from a service that is down to a lost
// session. It campaigns with win, and returns its first term, which is over.
func tour(t *testing.T, ctx context.Context, hooks elector.Hooks, win func(e elector.Elector) *elector.Term) (e elector.Elector, first *elector.Term) {
	t.Helper()
	service := memory.New(memory.Options{})
	client, began := service.Client("a"), time.Now()
	service.Stop() // Retry
	time.AfterFunc(time.Second, service.Start)
	e = standing(t, client, "a", func(c *elector.Config) {
		c.SurveyEvery, c.Hooks = time.Second, hooks
		c.Fit = elector.Fit{Every: time.Second, Check: func(context.Context) error {
			if time.Since(began) < 5*time.Second {
				return errors.New("not yet") // Aside
			}
			return nil
		}}
	})
	first = win(e)
	var err error
	apart(func() { _, err = first.Commit(ctx, elector.Put("/k", nil)) })
	assert.NoError(t, err)
	stranger := must.Get(service.Open(ctx, backend.OpenOptions{}))(t)
	must.Get(stranger.Commit(ctx, nil, backend.CreateEphemeral("/e/stranger", nil)))(t) // Occupied
	time.Sleep(2 * time.Second)
	require.NoError(t, stranger.Close(ctx))
	must.Get(election.Ask(ctx, service, fair.Strategy{}, "/e", election.Request{}))(t)
	<-first.Asked()
	synctest.Wait()
	client.Suspend()
	time.Sleep(100 * time.Millisecond)
	client.Resume()
	synctest.Wait()
	client.Expire()
	<-first.Context().Done()
	synctest.Wait()
	return e, first
}

// After a hook has ended its goroutine, as FailNow does, the elector's own goroutines continue: the other
// hooks are called, the next Campaign wins, and Close returns.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	for field := range reflect.TypeFor[elector.Hooks]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var ended, lost atomic.Bool
				hooks := telling(func(hook string) {
					if hook == field.Name && ended.CompareAndSwap(false, true) {
						runtime.Goexit()
					}
				}).Join(elector.Hooks{Session: func(_ string, s backend.State) { lost.Store(s == backend.Lost) }})
				e, first := tour(t, ctx, hooks, func(e elector.Elector) *elector.Term { return wins(t, ctx, e) })
				assert.True(t, lost.Load(), "Session has not told of the loss")
				assert.Greater(t, wins(t, ctx, e).Token(), first.Token())
				assert.NoError(t, e.Close(ctx))
				assert.True(t, ended.Load(), "the hook was not called")
			})
		})
	}
}

// A layer of a leader's session, or the strategy's Renew, that ends its goroutine ends the term.
func TestLeaderWhoseGoroutineIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var leads, ended atomic.Bool
		b := meter.New(memory.New(memory.Options{}), func(c meter.Call) {
			if c.Kind == backend.CallAwait && leads.Load() && ended.CompareAndSwap(false, true) {
				runtime.Goexit()
			}
		})
		e := standing(t, b, "a")
		term := wins(t, ctx, e)
		leads.Store(true)
		_ = term.Proclaim(ctx, []byte("its wait returns")) // the term may end first
		<-term.Context().Done()
		assert.ErrorIs(t, context.Cause(term.Context()), elector.ErrSessionLost)
		assert.Greater(t, wins(t, ctx, e).Token(), term.Token())
		assert.NoError(t, e.Close(ctx))
	})
}

// A layer of the session that ends its goroutine, at any of its calls, keeps nobody from leading, and
// everything returns.
func TestLayerThatEndsItsGoroutine(t *testing.T) {
	for nth, more := int64(1), true; more; nth++ {
		more = false
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
			defer cancel()
			service := memory.New(memory.Options{})
			var calls atomic.Int64
			a := standing(t, backend.Intercept(service.Client("a"), func(ctx context.Context, _ *backend.Call, next func(context.Context) error) error {
				if calls.Add(1) == nth {
					more = true
					runtime.Goexit()
				}
				return next(ctx)
			}), "a")
			b := standing(t, service.Client("b"), "b")
			observing, stop := context.WithCancel(ctx)
			observed := make(chan struct{})
			go func() {
				defer close(observed)
				for range a.Observe(observing) {
				}
			}()

			term := wins(t, ctx, a)
			apart(func() { _, _ = term.Commit(ctx, elector.Put("/k", nil)) })
			apart(func() { _ = term.Resign(ctx) })
			running, end := context.WithCancel(ctx)
			var runner sync.WaitGroup
			runner.Go(func() {
				for ; running.Err() == nil; time.Sleep(time.Second) { // the goroutine of a campaign may be ended, too
					apart(func() {
						_ = elector.Run(running, a, func(leading context.Context, _ *elector.Term) error {
							<-leading.Done()
							return nil
						})
					})
				}
			})
			next := make(chan *elector.Term, 1)
			time.Sleep(time.Minute)
			go func() { next <- wins(t, ctx, b) }()
			time.Sleep(time.Minute)
			_, err := election.Ask(ctx, service, fair.Strategy{}, "/e", election.Request{To: "b"})
			if err != nil {
				require.ErrorIs(t, err, elector.ErrNoCandidate, "call %d", nth) // b leads: a's session was lost
			}
			led := <-next
			end()
			runner.Wait()
			require.NoError(t, led.Resign(ctx), "call %d", nth)
			require.NotNil(t, wins(t, ctx, a))
			stop()
			<-observed
			for closed := false; !closed; {
				apart(func() { _, closed = a.Close(ctx), true })
			}
			require.Equal(t, 1, service.Stats().Sessions, "call %d: b's", nth)
		})
	}
}
