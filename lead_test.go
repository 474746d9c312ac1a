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
	"github.com/elector-go/elector/internal/must"
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
	return elector.Config{Backend: process, Strategy: fair.Strategy{}, Election: "/lead", ID: id}
}

// nothingLeft checks that the next leader does not have to wait.
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

func TestStandby(t *testing.T) {
	failed := errors.New("no cache")
	for what, c := range map[string]struct {
		standby func(ctx context.Context, elected <-chan struct{}) error
		end     time.Duration // of Lead's ctx
		leads   time.Duration // when lead begins; 0: never
		want    error
	}{
		"ready before the win": {standby: func(context.Context, <-chan struct{}) error { return nil }, leads: time.Minute},
		"follows until the win": {standby: func(_ context.Context, elected <-chan struct{}) error {
			<-elected
			time.Sleep(time.Second)
			return nil
		}, leads: time.Minute + time.Second},
		"fails while it waits": {standby: func(context.Context, <-chan struct{}) error { return failed }, want: failed},
		"fails after the win": {standby: func(_ context.Context, elected <-chan struct{}) error {
			<-elected
			return failed
		}, want: failed},
		"ctx ends while it waits": {standby: func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			return ctx.Err()
		}, end: time.Second},
		"ctx ends after the win": {standby: func(ctx context.Context, elected <-chan struct{}) error {
			<-elected
			<-ctx.Done()
			return ctx.Err()
		}, end: 2 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				first := must.Get(elector.New(at(service.Client("first"), "first")))(t)
				_ = must.Get(first.Campaign(t.Context()))(t)
				began := time.Now()
				time.AfterFunc(time.Minute, func() { _ = first.Close(context.Background()) })

				ctx, end := context.WithCancel(t.Context())
				defer end()
				if c.end > 0 {
					time.AfterFunc(c.end, end)
				}
				cfg, running, led := at(service.Client("a"), "a"), false, time.Duration(0)
				cfg.Standby = func(ctx context.Context, elected <-chan struct{}) error {
					running = true
					defer func() { running = false }()
					return c.standby(ctx, elected)
				}
				err := elector.Lead(ctx, cfg, func(context.Context, *elector.Term) error {
					assert.False(t, running, "lead beside Standby")
					led = time.Since(began)
					return nil
				})
				assert.ErrorIs(t, err, c.want)
				assert.Equal(t, c.leads, led)
				assert.False(t, running)
				time.Sleep(time.Minute)
				nothingLeft(t, service)
			})
		})
	}
}

// A leader whose term ends during Standby campaigns again, and calls Standby again.
func TestStandbyOfALostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		cfg, calls := at(service.Client("a"), "a"), 0
		cfg.Standby = func(ctx context.Context, elected <-chan struct{}) error {
			<-elected
			if calls++; calls == 1 {
				service.Delete("/lead")
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		leads := 0
		require.NoError(t, elector.Lead(t.Context(), cfg, func(context.Context, *elector.Term) error { leads++; return nil }))
		assert.Equal(t, 2, calls)
		assert.Equal(t, 1, leads)
	})
}
