package asynclog_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/asynclog"
)

// A handler passes each record's text to a function, after its mark.
type handler struct {
	say  func(string)
	mark string
}

func (h handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h handler) WithAttrs(a []slog.Attr) slog.Handler         { h.mark += a[0].Key; return h }
func (h handler) WithGroup(name string) slog.Handler           { h.mark += name; return h }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	text := h.mark + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	h.say(text)
	return nil
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		l := asynclog.New(slog.New(handler{say: func(s string) { said = append(said, s) }}))
		l.Info("one")
		l.With("a", 1).Warn("two")
		l.WithGroup("g").Debug("not enabled")
		l.WithGroup("g").Error("three", "n", 3)
		assert.True(t, asynclog.Flush(t.Context(), l, time.Second))
		assert.Equal(t, []string{"one", "atwo", "gthree n=3"}, said)
	})
}

// A handler that does not return delays nobody, and records that do not fit are dropped and counted.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		stuck := make(chan struct{})
		l := asynclog.New(slog.New(handler{say: func(s string) { <-stuck; said = append(said, s) }}))
		began := time.Now()
		l.Info("first") // the handler holds this one
		synctest.Wait()
		for i := range asynclog.Most + 5 {
			l.Info(fmt.Sprint(i))
		}
		assert.Zero(t, time.Since(began))
		assert.False(t, asynclog.Flush(t.Context(), l, time.Second))
		close(stuck)
		synctest.Wait()
		assert.Len(t, said, 1+asynclog.Most+1)
		assert.Equal(t, "first", said[0])
		assert.Equal(t, fmt.Sprint(asynclog.Most-1), said[asynclog.Most])
		assert.Equal(t, "log records were dropped: the log's handler is too slow dropped=5", said[asynclog.Most+1])
		l.Info("later")
		assert.True(t, asynclog.Flush(t.Context(), l, time.Second))
		assert.Equal(t, "later", said[asynclog.Most+2])
	})
}

// locked is a handler with one lock for all its methods except Enabled.
type locked struct {
	handler
	mu *sync.Mutex
}

func (h locked) WithAttrs([]slog.Attr) slog.Handler { h.mu.Lock(); defer h.mu.Unlock(); return h }
func (h locked) WithGroup(string) slog.Handler      { h.mu.Lock(); defer h.mu.Unlock(); return h }

func (h locked) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handler.Handle(ctx, r)
}

// With does not wait for a handler either.
func TestStuckWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		l := asynclog.New(slog.New(locked{handler{say: func(string) { <-stuck }}, new(sync.Mutex)}))
		l.Info("first")
		synctest.Wait()
		began := time.Now()
		l.With("a", 1).WithGroup("g").Info("second")
		assert.Zero(t, time.Since(began))
		close(stuck)
		assert.True(t, asynclog.Flush(t.Context(), l, time.Second))
	})
}

// A handler that ends its goroutine, as a test's FailNow does, does not end the log.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		l := asynclog.New(slog.New(handler{say: func(s string) {
			if said = append(said, s); s == "one" {
				runtime.Goexit()
			}
		}}))
		l.Info("one")
		l.Info("two")
		assert.True(t, asynclog.Flush(t.Context(), l, time.Second))
		assert.Equal(t, []string{"one", "two"}, said)
	})
}

func TestNone(t *testing.T) {
	assert.False(t, asynclog.New(nil).Enabled(t.Context(), slog.LevelError))
	assert.True(t, asynclog.Flush(t.Context(), asynclog.New(nil), 0))
	l := asynclog.New(slog.New(handler{}))
	assert.Same(t, l, asynclog.New(l))
	derived := l.With("a", 1)
	assert.Same(t, derived, asynclog.New(derived))
}
