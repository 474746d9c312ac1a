package elector_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
)

// ending is fair, with functions in its claims that call called.
type ending struct {
	fair.Strategy
	called func()
}

func (s ending) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	s.called()
	claim, err := s.Strategy.Campaign(ctx, c)
	s.called()
	encode := claim.Encode
	claim.Encode = func(value []byte) []byte { s.called(); return encode(value) }
	claim.StillLeads = func(backend.Entry) bool { s.called(); return true }
	claim.Renew = func(ctx context.Context) error {
		s.called()
		select {
		case <-time.After(time.Minute):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return claim, err
}

// A strategy whose functions end their goroutine, at any of the calls, keeps nobody from leading, and
// everything returns. The same is true of a session that others share.
func TestStrategyThatEndsItsGoroutine(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for nth, more := int64(1), true; more; nth++ {
			more = false
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				service := memory.New(memory.Options{})
				var calls atomic.Int64
				b := backend.Backend(service.Client("a"))
				if shared {
					b = backend.Share(b, 0)
					leads(t, standing(t, b, "other", func(c *elector.Config) { c.Election = "/other" }))
				}
				a := standing(t, b, "a", func(c *elector.Config) {
					c.Strategy = ending{called: func() {
						if calls.Add(1) == nth {
							more = true
							runtime.Goexit()
						}
					}}
				})
				next := standing(t, service.Client("b"), "b")
				term := wins(t, ctx, a)
				apart(func() { _ = term.Proclaim(ctx, []byte("v")) })
				time.Sleep(3 * time.Minute)
				_, err := election.Ask(ctx, service, fair.Strategy{}, "/e", election.Request{})
				synctest.Wait()
				time.Sleep(time.Minute)
				_ = err // nobody may lead
				apart(func() { _ = term.Resign(ctx) })
				<-term.Context().Done()
				led := wins(t, ctx, next)
				require.NoError(t, led.Resign(ctx), "call %d", nth)
				again := wins(t, ctx, a)
				require.NoError(t, again.Resign(ctx))
				for closed := false; !closed; {
					apart(func() { _, closed = a.Close(ctx), true })
				}
				require.NoError(t, wins(t, ctx, next).Resign(ctx))
				require.Less(t, nth, int64(100))
			})
		}
	}
}
