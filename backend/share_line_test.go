package backend_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/unhurried"
)

// Of many requests of a shared session 256 are pending at once, and 32 of those that nobody waits for. The
// others follow in line. A removal waits for none of them, and a line that does not move keeps nobody.
func TestShareLine(t *testing.T) {
	const most, few, all = int64(256), int64(32), int64(300)
	synctest.Test(t, func(t *testing.T) {
		var pending, answered atomic.Int64
		answer, end := make(chan struct{}), make(chan struct{})
		b := backend.Intercept(memory.New(memory.Options{}), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallGet {
				pending.Add(1)
				if unhurried.Awaited(ctx) != nil {
					<-end // their line does not move
				} else {
					select {
					case <-answer:
					case <-end:
					}
				}
				pending.Add(-1)
				answered.Add(1)
			}
			return next(ctx)
		})
		s := open(t, backend.Share(b, 10*time.Minute))
		seat := create(t, s, "/seat")
		var asking sync.WaitGroup
		ask := func(ctx context.Context) {
			for i := range all {
				asking.Go(func() { _, _ = s.Get(ctx, fmt.Sprintf("/none%d", i)) })
			}
			synctest.Wait()
		}

		ask(unhurried.Context(t.Context(), end))
		assert.Equal(t, few, pending.Load())
		ask(t.Context())
		assert.Equal(t, few+most, pending.Load())
		began := time.Now()
		_, err := s.Commit(t.Context(), nil, backend.Delete(seat))
		assert.NoError(t, err)
		assert.Zero(t, time.Since(began), "a removal waits in no line")

		for i := range 10 {
			time.Sleep(700 * time.Millisecond)
			answer <- struct{}{}
			synctest.Wait()
			assert.Equal(t, few+most, pending.Load(), "%d are answered, and so many follow", i+1)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(t, pending.Load(), few+all-10, "a line that does not move keeps nobody")
		close(end)
		asking.Wait()
		assert.Equal(t, 2*all, answered.Load())
	})
}
