package elector_test

import (
	"context"
	"errors"
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

// fake is an Elector whose terms are made by hand, as users can make a fake.
type fake struct {
	elector.Elector
	token    uint64
	resigned []uint64
	end      context.CancelCauseFunc // ends the current term
}

func (f *fake) Campaign(ctx context.Context) (*elector.Term, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.token++
	token := f.token
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	f.end = end
	return elector.NewTerm(elector.TermConfig{
		Token: token, Context: ctx,
		Valid: func() bool { return ctx.Err() == nil },
		Resign: func(context.Context) error {
			end(elector.ErrResigned)
			f.resigned = append(f.resigned, token)
			return nil
		},
	}), nil
}

// The pauses start from the shortest again after a term that lasted, and differ between candidates.
func TestRunCampaignsAgainAfterAnErrorAndPausesMoreAndMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all [2][]time.Duration
		for one := range all {
			f := &fake{}
			var ended time.Time
			terms := 0
			err := elector.Run(t.Context(), f, func(context.Context, *elector.Term) error {
				if terms++; terms > 1 {
					all[one] = append(all[one], time.Since(ended))
				}
				switch terms {
				case 6:
					time.Sleep(time.Minute)
				case 8:
					return errors.Join(elector.ErrStop, errors.New("enough"))
				}
				ended = time.Now()
				return errors.New("cannot lead today")
			})
			assert.ErrorIs(t, err, elector.ErrStop)
			assert.Len(t, f.resigned, 8)
			for i, pause := range all[one] {
				lo := 50 * time.Millisecond << (i % 5)
				assert.True(t, pause >= lo && pause <= 2*lo, "pause %d is %v, want %v to %v", i, pause, lo, 2*lo)
			}
		}
		assert.NotEqual(t, all[0], all[1])
	})
}

func TestRunReleasesAfterTheLeadFunctionReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("shutting down")
		err := elector.Run(ctx, f, func(lead context.Context, term *elector.Term) error {
			cancel(why)
			<-lead.Done()
			assert.ErrorIs(t, context.Cause(lead), why)
			time.Sleep(time.Hour) // ignores its ctx
			assert.True(t, len(f.resigned) == 0 && term.Valid(), "the seat is kept while the lead function runs")
			return nil
		})
		assert.ErrorIs(t, err, why)
		assert.Len(t, f.resigned, 1)
	})
}

// Run reports why lead failed: otherwise a candidate that can never lead takes turns silently.
func TestRunTellsWhyLeadFailed(t *testing.T) {
	broken := errors.New("the disk is full")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var causes []error
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Hooks.Ended = func(_ *elector.Term, cause error) { causes = append(causes, cause) }
		})
		calls := 0
		err := elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
			if calls++; calls == 1 {
				return broken
			}
			stop()
			<-ctx.Done()
			return ctx.Err() // says nothing
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.NoError(t, e.Close(context.Background()))
		require.Len(t, causes, 2)
		assert.ErrorIs(t, causes[0], elector.ErrResigned)
		assert.ErrorContains(t, causes[0], broken.Error())
		assert.Equal(t, elector.ErrResigned, causes[1])
	})
}

// Run does not outlast Close by a pause in which nothing can follow.
func TestCloseEndsThePauseOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := standing(t, memory.New(memory.Options{}), "a")
		returned := make(chan error, 1)
		go func() {
			returned <- elector.Run(t.Context(), e, func(context.Context, *elector.Term) error { return errors.New("cannot lead") })
		}()
		time.Sleep(5 * time.Minute) // until the pauses are long
		require.False(t, e.Status().NextTry.IsZero(), "Run does not pause")
		require.NoError(t, e.Close(t.Context()))
		closed := time.Now()
		assert.ErrorIs(t, <-returned, elector.ErrClosed)
		assert.Zero(t, time.Since(closed))
	})
}

// taken returns a service whose paths hold something that is no entry.
func taken(b backend.Backend) backend.Backend {
	return backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if c.Kind == backend.CallCommit {
			return backend.ErrConflict
		}
		return next(ctx)
	})
}

// A candidate that cannot found the election because of what is at its path backs off and says so.
func TestNotFounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		tries := 0
		e := standing(t, taken(memory.New(memory.Options{})), "a", func(c *elector.Config) {
			c.Hooks.Retry = func(r elector.RetryEvent) {
				tries++
				assert.ErrorIs(t, r.Err, backend.ErrConflict)
			}
		})
		_, err := e.Campaign(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, tries > 0 && tries <= 100, "tried again %d times within a minute", tries)
		assert.NoError(t, e.Close(context.Background()))
	})
}

// A process that was frozen may check its term before the term's timer runs.
func TestATermThatIsNotValidHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passed atomic.Bool
		e := standing(t, backend.Around(memory.New(memory.Options{}), func(s *backend.Session) backend.Layer {
			return backend.Layer{Life: overdue{s, &passed}}
		}), "anna")
		for name, look := range map[string]func(*elector.Term){
			"Valid":  func(term *elector.Term) { assert.False(t, term.Valid(), "after the deadline") },
			"Resign": func(term *elector.Term) { _ = term.Resign(t.Context()) },
		} {
			term := leads(t, e)
			require.True(t, term.Valid())
			passed.Store(true)
			look(term)
			assert.ErrorIs(t, context.Cause(term.Context()), elector.ErrSessionLost, name)
			passed.Store(false)
			require.NoError(t, term.Resign(t.Context())) // the session is really alive
		}
	})
}

// overdue is the life of a session whose deadline can be moved into the past, as a freeze does.
type overdue struct {
	backend.Life
	passed *atomic.Bool
}

func (o overdue) Deadline() time.Time {
	if o.passed.Load() {
		return time.Now()
	}
	return o.Life.Deadline()
}

// The attempts count from one again after a campaign has stood in the election for a while.
func TestCampaignThatStoodCountsFromOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		leads(t, standing(t, service, "leader"))
		client := service.Client("a")
		var attempts []int
		campaigns(t, standing(t, client, "a", func(c *elector.Config) {
			c.Hooks.Retry = func(r elector.RetryEvent) { attempts = append(attempts, r.Attempt) }
		}))
		for _, stood := range []time.Duration{time.Second, time.Second, time.Second, time.Minute, time.Second} {
			pass(stood)
			client.Expire()
			synctest.Wait()
		}
		assert.Equal(t, []int{1, 2, 3, 1, 2}, attempts)
	})
}
