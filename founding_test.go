package elector_test

import (
	"context"
	"errors"
	"fmt"
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
)

// An election is founded over the entry at its path, but not over another entry that has replaced it with
// the same version: otherwise two would lead.
func TestFoundedInPlaceOfWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		require.NoError(t, service.Put("/e", nil))
		early := standing(t, service.Client("early"), "early")
		var once sync.Once
		late := standing(t, backend.Intercept(service.Client("late"), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallCommit {
				once.Do(func() {
					service.Delete("/e")
					leads(t, early)
				})
			}
			return next(ctx)
		}), "late")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := late.Campaign(ctx)
		assert.Error(t, err, "the early one leads")
		require.NoError(t, errors.Join(late.Close(t.Context()), early.Close(t.Context())))
	})
}

// A lateOpen is a backend that opens its session only when released, even if ctx has ended.
type lateOpen struct {
	backend.Backend
	asked, goOn chan struct{}
	opened      chan *backend.Session
}

func (b *lateOpen) Open(_ context.Context, o backend.OpenOptions) (*backend.Session, error) {
	close(b.asked)
	<-b.goOn
	s, err := b.Backend.Open(context.Background(), o)
	b.opened <- s
	return s, err
}

// A session that opens after the elector was closed is closed, too.
func TestSessionOpenedAsTheElectorCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lateOpen{memory.New(memory.Options{}).Client("a"), make(chan struct{}), make(chan struct{}), make(chan *backend.Session, 1)}
		e := standing(t, b, "a")
		go func() { _, _ = e.Campaign(t.Context()) }() // Close ends it
		<-b.asked
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = e.Close(ctx) // it may report that this is not confirmed
		close(b.goOn)
		_ = e.Close(t.Context())
		synctest.Wait()
		assert.Equal(t, backend.Lost, (<-b.opened).State())
	})
}

// A silent backend accepts the connection and then does not answer.
type silent struct{ backend.Backend }

func (silent) Open(ctx context.Context, _ backend.OpenOptions) (*backend.Session, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server that does not answer is reported as unavailable.
func TestOpenThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		e := standing(t, silent{memory.New(memory.Options{})}, "a", func(c *elector.Config) {
			c.Hooks.Retry = func(r elector.RetryEvent) {
				assert.ErrorIs(t, r.Err, backend.ErrUnavailable)
				assert.Equal(t, 10*time.Second, time.Since(began))
				cancel()
			}
		})
		_, err := e.Campaign(ctx)
		assert.ErrorIs(t, err, context.Canceled, "it has been told of")
	})
}

// looks makes a candidate that looks for strangers at the interval, and calls look each time.
func looks(t *testing.T, b backend.Backend, id string, every time.Duration, look func(ctx context.Context)) elector.Elector {
	return standing(t, backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if c.Kind == backend.CallSurvey {
			look(ctx)
		}
		return next(ctx)
	}), id, func(c *elector.Config) { c.SurveyEvery = every })
}

// Candidates look as often as configured, even if the leader wakes them in between, and not all at one
// instant.
func TestWhenCandidatesLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		leader := leads(t, standing(t, service, "leader"))
		began := time.Now()
		var at [2][]time.Time
		for i := range at {
			id := fmt.Sprint("host-", i)
			campaigns(t, looks(t, service.Client(id), id, time.Minute, func(context.Context) {
				at[i] = append(at[i], time.Now())
			}))
		}
		for range 15 {
			require.NoError(t, leader.Proclaim(t.Context(), nil)) // it wakes the candidate behind
			pass(40 * time.Second)
		}
		for _, times := range at {
			last := began
			for _, now := range append(times, time.Now()) {
				assert.LessOrEqual(t, now.Sub(last), time.Minute)
				last = now
			}
		}
		assert.NotEqual(t, at[0][1:], at[1][1:])
	})
}

// A look that hangs delays no notice of a change, and a leader has only one look at a time.
func TestLooksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var hangs atomic.Bool
		var under, looked atomic.Int64
		leader := looks(t, service.Client("a"), "a", time.Second, func(ctx context.Context) {
			if hangs.Load() {
				assert.LessOrEqual(t, under.Add(1), int64(1))
				<-ctx.Done()
				under.Add(-1)
				looked.Add(1)
			}
		})
		next := looks(t, service.Client("b"), "b", time.Second, func(ctx context.Context) {
			if hangs.Load() {
				<-ctx.Done()
			}
		})
		term := leads(t, leader)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		won := campaign(ctx, next)
		synctest.Wait()
		hangs.Store(true)
		pass(10 * time.Second)
		assert.GreaterOrEqual(t, looked.Load(), int64(3))
		began := time.Now()
		require.NoError(t, term.Resign(t.Context()))
		require.NoError(t, <-won)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
	})
}
