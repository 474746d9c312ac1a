package unfair_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/unfair"
)

// A newcomer waits for a random time, too, though the seat is vacant.
func TestJitterOfANewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jitter = time.Minute
		e := must.Get(elector.New(elector.Config{
			Backend: memory.New(memory.Options{}), Strategy: unfair.Strategy{Jitter: jitter}, Election: "/e", ID: "a",
		}))(t)
		waited := make(map[time.Duration]bool)
		for range 10 {
			came := time.Now()
			term := must.Get(e.Campaign(t.Context()))(t)
			after := time.Since(came)
			assert.Less(t, after, jitter)
			waited[after] = true
			require.NoError(t, term.Resign(t.Context()))
		}
		assert.Greater(t, len(waited), 5, "by chance: %v", waited)
		require.NoError(t, e.Close(context.WithoutCancel(t.Context())))
	})
}
