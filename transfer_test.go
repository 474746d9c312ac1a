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
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// Transfer stops the work when the heir is next, and resigns only if the work has stopped.
func TestTransferStopsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		term := leads(t, standing(t, service, "a"))
		campaigns(t, standing(t, service, "b"))
		heir := standing(t, service, "c")
		campaigns(t, heir)
		stops := func(id string, result error) error {
			called := false
			err := term.Transfer(t.Context(), id, func() error {
				called = true
				assert.True(t, term.Valid())
				return result
			})
			assert.Equal(t, id != "nobody", called)
			return err
		}
		require.ErrorIs(t, stops("nobody", nil), elector.ErrNoCandidate)
		errWorks := errors.New("the work goes on")
		require.Equal(t, errWorks, stops("c", errWorks))
		require.True(t, term.Valid())
		require.NoError(t, stops("c", nil))
		require.ErrorIs(t, context.Cause(term.Context()), elector.ErrResigned)
		synctest.Wait()
		assert.NotNil(t, heir.Term())
	})
}

// Transfer and Resign are confirmed with a ctx that ends with the term, such as that of a lead function.
func TestResignWithTheCtxOfTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{Latency: func() time.Duration { return time.Millisecond }})
		leader, heir := standing(t, service, "a"), standing(t, service, "b")
		for _, end := range []func(context.Context, *elector.Term) error{
			func(ctx context.Context, t *elector.Term) error { return t.Resign(ctx) },
			func(ctx context.Context, t *elector.Term) error { return t.Transfer(ctx, "b", nil) },
		} {
			term := leads(t, leader)
			campaigns(t, heir)
			ctx, cancel := context.WithTimeout(term.Context(), time.Minute)
			defer cancel()
			require.NoError(t, end(ctx, term))
			synctest.Wait()
			time.Sleep(time.Second)
			require.NoError(t, heir.Term().Resign(t.Context()))
		}
	})
}

// If a frozen candidate before the heir does not step aside, the leader goes all the same.
func TestRunGoesWithoutAnHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var going time.Time
		done := make(chan error, 1)
		leader, frozen := standing(t, service, "a"), service.Client("b")
		go func() {
			done <- elector.Run(t.Context(), leader, func(ctx context.Context, _ *elector.Term) error {
				<-ctx.Done()
				going = time.Now()
				return elector.ErrStop
			})
		}()
		synctest.Wait()
		campaigns(t, standing(t, frozen, "b"))
		campaigns(t, standing(t, service, "c"))
		defer frozen.HoldWakeups()()
		asked := time.Now()
		must.Get(election.Ask(t.Context(), service, fair.Strategy{}, "/e", election.Request{To: "c"}))(t)
		require.ErrorIs(t, <-done, elector.ErrStop)
		assert.Equal(t, 10*time.Second, going.Sub(asked))
	})
}
