package elector_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
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
				return errors.New("canceling statement due to user request") // as drivers of databases say it
			}
			return nil
		}
		leads := 0
		require.NoError(t, elector.Lead(t.Context(), cfg, func(context.Context, *elector.Term) error { leads++; return nil }))
		assert.Equal(t, 2, calls)
		assert.Equal(t, 1, leads)
	})
}

// What a Standby that has to return does to its caller: Run waits for it, says so, and forgets nothing.
func TestStandbyThatHasToReturn(t *testing.T) {
	waits := func(ctx context.Context, _ <-chan struct{}) error {
		<-ctx.Done()
		time.Sleep(time.Minute)
		return nil
	}
	prepare := func(t *testing.T, service *memory.Service) (cfg elector.Config, log *wait.Log, running func() bool) {
		log = new(wait.Log)
		var n atomic.Int64
		cfg = at(service.Client("a"), "a")
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		cfg.Standby = func(ctx context.Context, elected <-chan struct{}) error {
			n.Add(1)
			defer n.Add(-1)
			return waits(ctx, elected)
		}
		return cfg, log, func() bool { return n.Load() > 0 }
	}
	lead := func(context.Context, *elector.Term) error { return nil }

	t.Run("a campaign that failed for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			other := at(service.Client("other"), "other")
			other.Strategy = unfair.Strategy{}
			require.NoError(t, elector.Lead(t.Context(), other, lead)) // founds the election
			cfg, log, running := prepare(t, service)
			ctx, end := context.WithTimeout(t.Context(), time.Second) // while Run waits
			defer end()
			require.ErrorIs(t, elector.Lead(ctx, cfg, lead), elector.ErrStrategyMismatch)
			assert.Contains(t, log.String(), "standby has not returned")
			assert.False(t, running())
		})
	})
	t.Run("a lost term", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			cfg, log, _ := prepare(t, service)
			cfg.Hooks.Elected = func(*elector.Term) { service.Delete("/lead") }
			ctx, end := context.WithTimeout(t.Context(), time.Hour)
			defer end()
			require.NoError(t, elector.Lead(ctx, cfg, lead))
			assert.Contains(t, log.String(), "standby has not returned")
			assert.NotContains(t, log.String(), "lead has not returned")
		})
	})
	t.Run("a hook that panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			cfg, _, running := prepare(t, service)
			cfg.Hooks.Elected = func(*elector.Term) { panic("hook") }
			assert.PanicsWithValue(t, "hook", func() { _ = elector.Lead(t.Context(), cfg, lead) })
			time.Sleep(time.Hour)
			assert.False(t, running())
		})
	})
	t.Run("a Run that is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			cfg, _, running := prepare(t, service)
			e := must.Get(elector.New(cfg))(t)
			_ = must.Get(e.Campaign(t.Context()))(t)
			require.ErrorIs(t, elector.Run(t.Context(), e, lead), elector.ErrBusy)
			assert.False(t, running(), "it was not called")
			require.NoError(t, e.Close(t.Context()))
		})
	})
}
