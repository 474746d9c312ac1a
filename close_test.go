package elector_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
)

// Close says what it did not wait for, and mentions a hook only if there is one.
func TestCloseSaysWhatHasNotEnded(t *testing.T) {
	for name, c := range map[string]struct {
		freeze, hook bool
	}{
		"service frozen":          {freeze: true},
		"hook hangs":              {hook: true},
		"service frozen and hook": {true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := memory.New(memory.Options{}).Client("a")
			hang := make(chan struct{})
			e := standing(t, client, "a", func(cfg *elector.Config) {
				if c.hook {
					cfg.Hooks.Ended = func(*elector.Term, error) { <-hang }
				}
			})
			leads(t, e)
			synctest.Wait()
			if c.freeze {
				client.Suspend()
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			err := e.Close(over)
			assert.LessOrEqual(t, time.Since(began), 3*time.Second, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, "%s: want the end of its two seconds", name)
			assert.Equal(t, c.hook, strings.Contains(err.Error(), "hook"), "%s: %v", name, err)
			close(hang)
			client.Resume()
			assert.NoError(t, e.Close(t.Context()), "%s: once nothing hangs", name)
		})
	}
}

// slow is a log writer that takes its time.
type slow struct{ lines *strings.Builder }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return s.lines.Write(p)
}

// Close returns after the last log records are written, unless nobody reads them.
func TestCloseHasLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		e := standing(t, memory.New(memory.Options{}).Client("a"), "a", func(c *elector.Config) {
			c.Logger = slog.New(slog.NewTextHandler(slow{&lines}, nil))
		})
		leads(t, e)
		require.NoError(t, e.Close(t.Context()))
		assert.Contains(t, lines.String(), "term ended")
	})
}
