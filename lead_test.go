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
	"github.com/elector-go/elector/strategy/fair"
)

func TestLead(t *testing.T) {
	failed := errors.New("the last batch is not written")
	for what, c := range map[string]struct {
		lead func(ctx context.Context, end func(), process *memory.Client) error
		want error // nil: Lead returns nil
		says string
	}{
		"ctx ends": {lead: func(ctx context.Context, end func(), _ *memory.Client) error {
			end()
			<-ctx.Done()
			return ctx.Err()
		}},
		"the work is done": {lead: func(context.Context, func(), *memory.Client) error { return nil }},
		"lead fails when ctx has ended": {lead: func(_ context.Context, end func(), _ *memory.Client) error {
			end()
			return failed
		}, want: failed},
		"lead stops": {lead: func(context.Context, func(), *memory.Client) error {
			return errors.Join(elector.ErrStop, failed)
		}, want: failed},
		"out of touch at the end": {lead: func(_ context.Context, end func(), process *memory.Client) error {
			process.Suspend()
			end()
			return nil
		}, says: "close /lead"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				process := service.Client("a")
				ctx, end := context.WithCancel(t.Context())
				err := elector.Lead(ctx, at(process, "a"), func(ctx context.Context, term *elector.Term) error {
					return c.lead(ctx, end, process)
				})
				switch {
				case c.says != "":
					assert.ErrorContains(t, err, c.says)
					return
				case c.want != nil:
					assert.ErrorIs(t, err, c.want)
				default:
					assert.NoError(t, err)
				}
				nothingLeft(t, service)
			})
		})
	}
}

func at(process *memory.Client, id string) elector.Config {
	return elector.Config{Backend: process, Strategy: fair.New(), Election: "/lead", ID: id}
}

// nothingLeft checks that nobody stands in the way of the next leader.
func nothingLeft(t *testing.T, service *memory.Service) {
	t.Helper()
	began := time.Now()
	require.NoError(t, elector.Lead(t.Context(), at(service.Client("next"), "next"), func(context.Context, *elector.Term) error { return nil }))
	assert.Zero(t, time.Since(began), "the next leader had to wait")
}

func TestLeadOfOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		err := elector.Lead(t.Context(), at(service.Client("a"), "a"), func(context.Context, *elector.Term) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return elector.Lead(ctx, at(service.Client("b"), "b"), func(context.Context, *elector.Term) error {
				t.Error("b leads beside a")
				return nil
			})
		})
		require.NoError(t, err)
		nothingLeft(t, service)
	})
}

func TestLeadOfABadConfig(t *testing.T) {
	err := elector.Lead(t.Context(), elector.Config{}, func(context.Context, *elector.Term) error { return nil })
	assert.ErrorIs(t, err, elector.ErrConfig)
}

func TestPanicOfLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		assert.PanicsWithValue(t, "lead", func() {
			_ = elector.Lead(t.Context(), at(service.Client("a"), "a"), func(context.Context, *elector.Term) error { panic("lead") })
		})
		nothingLeft(t, service)
	})
}
