// Package asynclogtest has logs for tests: one that is stuck, as one is that goes to a pipe that nobody
// reads, and one that is read while others write it.
package asynclogtest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
)

// Text is what was written so far. The zero Text is empty.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (x *Text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

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
