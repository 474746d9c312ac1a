package zookeeper_test

import (
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
)

// The user's logger is not called under a lock.
func TestLoggerMayAskTheSession(t *testing.T) {
	var logged atomic.Pointer[*backend.Session]
	f := setUp(t, func(cfg *zookeeper.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if s := logged.Load(); s != nil {
					(*s).State()
				}
				return a
			},
		}))
	})
	logged.Store(&f.s)
	_, err := receive(f, later(func() (struct{}, error) { return struct{}{}, f.s.Close(f.ctx) }))
	require.NoError(t, err)
}
