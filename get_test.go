package elector_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/unfair"
)

// A read of a term takes one request; the first read also asks for the claim, unless the term has
// committed something.
func TestGetCosts(t *testing.T) {
	for _, commits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := meter.New(memory.New(memory.Options{}), nil)
			e := standing(t, b, "a", func(c *elector.Config) { c.Strategy = unfair.Strategy{} }) // writes no mark
			term := leads(t, e)
			if commits {
				must.Get(term.Commit(t.Context(), elector.Create("/x", nil)))(t)
			}
			before := b.Counts()
			for range 3 {
				must.Get(term.Get(t.Context(), "/e"))(t)
				_, err := term.Get(t.Context(), "/none")
				require.ErrorIs(t, err, backend.ErrNoEntry)
				require.ErrorContains(t, err, "/none")
			}
			cost := b.Counts().Sub(before)
			assert.Equal(t, 6, cost.Gets)
			assert.Equal(t, map[bool]int{false: 1, true: 0}[commits], cost.Commits)
		})
	}
}

// A read while out of touch waits for the link, its ctx, or the end of the term.
func TestGetOutOfTouch(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, c *memory.Client, svc *memory.Service, term *elector.Term) {
		c.Suspend()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := term.Get(ctx, "/x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, elector.ErrDeposed)
		assert.True(t, term.Valid())
		_, err = term.Get(t.Context(), "/x")
		require.ErrorIs(t, err, elector.ErrDeposed)
		require.ErrorIs(t, err, elector.ErrSessionLost)
		assert.NotErrorIs(t, err, backend.ErrNoEntry)
		_, err = term.Get(t.Context(), "relative")
		require.Error(t, err)
	})
}

// A deposed leader that has not had a notice finds out with its first read, or with a commit whose outcome
// is unknown.
func TestALeaderFindsOutThatTheClaimIsGone(t *testing.T) {
	for want, ask := range map[error]func(context.Context, *elector.Term) error{
		elector.ErrDeposed: func(ctx context.Context, t *elector.Term) error { _, err := t.Get(ctx, "/e"); return err },
		elector.ErrIndeterminate: func(ctx context.Context, t *elector.Term) error {
			_, err := t.Commit(ctx, elector.Put("/x", nil))
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			deaf := backend.Intercept(service.Client("a"), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
				switch {
				case c.Kind == backend.CallAwait:
					<-ctx.Done()
					return ctx.Err()
				case c.Kind == backend.CallCommit && len(c.Ops) > 0 && c.Ops[0].Key == "/x":
					return backend.ErrIndeterminate
				}
				return next(ctx)
			})
			e := standing(t, deaf, "a", func(c *elector.Config) { c.Strategy = unfair.Strategy{} })
			term := leads(t, e)
			service.Delete(must.Get(e.Leader(t.Context()))(t).Seat.Key)
			synctest.Wait()
			require.True(t, term.Valid())
			require.ErrorIs(t, ask(t.Context(), term), want)
			assert.ErrorIs(t, context.Cause(term.Context()), elector.ErrDeposed)
		})
	}
}

// A fake's term without a Get of its own reads through its session, if it has one.
func TestGetOfAFake(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, _ *memory.Client, _ *memory.Service, term *elector.Term) {
		over := false
		fake := elector.NewTerm(elector.TermConfig{Context: term.Context(), Guard: term.Guard, Valid: func() bool { return !over }})
		must.Get(fake.Get(t.Context(), "/jobs/reindex"))(t)
		over = true
		_, err := fake.Get(t.Context(), "/jobs/reindex")
		require.ErrorIs(t, err, elector.ErrDeposed)
		none := elector.NewTerm(elector.TermConfig{Guard: func() elector.Guard { return elector.Guard{} }})
		_, err = none.Get(t.Context(), "/x")
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}
