// Package standtest makes candidates stand while a test looks at their election.
package standtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
)

// Stand makes a candidate stand until stop, and returns when it leads or waits. A leader that is asked to go
// does so, and stands again.
func Stand(t *testing.T, url, election, id, value string, strategy strategy.Strategy) (stop func()) {
	t.Helper()
	b, err := dial.Open(t.Context(), url)
	require.NoError(t, err)
	// The test is not about its session, which must survive a machine that pauses for a while.
	ttl := min(time.Minute, b.Limits().MaxTTL)
	var once sync.Once
	stands := make(chan struct{})
	hooks := elector.Hooks{
		Stage: func(e elector.StageEvent) {
			if e.Stage == elector.StageReady && !e.Completed {
				once.Do(func() { close(stands) })
			}
		},
		Elected: func(*elector.Term) { once.Do(func() { close(stands) }) },
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: strategy, Election: election, ID: id, Value: []byte(value), TTL: ttl, Hooks: hooks})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil })
	}()
	stop = func() {
		cancel()
		<-ended
		closing, done := context.WithTimeout(context.Background(), wait.Patience)
		defer done()
		assert.NoError(t, e.Close(closing))
		assert.NoError(t, b.Close())
	}
	select {
	case <-stands: // its entry exists, which its role does not tell
	case <-time.After(wait.Patience):
		require.Fail(t, "it does not stand", "%s in %s: %+v", id, election, e.Status())
	}
	return stop
}
