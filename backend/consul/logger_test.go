package consul_test

import (
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
)

// The user's logger is not called under a lock.
func TestLoggerMayAskTheSession(t *testing.T) {
	t.Parallel()
	var logged atomic.Pointer[*backend.Session]
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if s := logged.Load(); s != nil {
				(*s).State()
			}
			return a
		},
	}))
	f := setUpOn(t, consultest.Options{Config: consul.Config{Logger: logger}}, sharedServer(t))
	logged.Store(&f.s)
	_, err := receive(f, later(func() (struct{}, error) { return struct{}{}, f.s.Close(f.ctx) }))
	require.NoError(t, err)
}
