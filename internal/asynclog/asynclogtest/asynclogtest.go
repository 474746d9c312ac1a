// Package asynclogtest has a log for tests that is stuck, as one is that goes to a pipe that nobody reads.
package asynclogtest

import (
	"context"
	"log/slog"
	"testing"
)

// Stuck returns a logger whose handler does not return before t has ended. All levels are enabled.
func Stuck(t testing.TB) *slog.Logger {
	h := make(handler)
	t.Cleanup(func() { close(h) })
	return slog.New(h)
}

type handler chan struct{}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) WithGroup(string) slog.Handler            { return h }

func (h handler) Handle(context.Context, slog.Record) error {
	<-h
	return nil
}
