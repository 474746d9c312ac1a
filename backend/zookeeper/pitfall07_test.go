package zookeeper_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// logged collects what the client library says.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

func TestPitfall07WatchesThatAreNotSetAgain(t *testing.T) {
	var log logged
	f := setUp(t, func(cfg *zookeeper.Config) {
		cfg.MaxRequest = 16 << 10
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	p := zktest.NewProcess(t, f.Servers, nil)
	away, err := p.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer away.Close(f.ctx)
	// More watches than fit into a request of the client library's buffer: to set them
	// again would fail, which it would only log. It has none to set.
	var known []backend.Entry
	for i := range 50 {
		dir := fmt.Sprintf("%s/%s%d", f.dir, strings.Repeat("d", 400), i)
		made, err := away.Commit(f.ctx, nil, backend.CompareAndSet(dir, nil, 0), backend.Enqueue(dir, nil))
		require.NoError(t, err)
		known = append(known, made[1])
	}
	waiting := later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	for _, e := range known {
		wait.For(t, "a watch", func() bool { return watchesOf(t, f.server, e.Key) == 1 })
	}
	_, err = f.s.Get(f.ctx, f.dir) // the answers before this one have been handled
	require.NoError(t, err)
	f.Suspend()
	require.NoError(t, away.Discard(f.ctx, known[17]))
	f.Resume()
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, got[17].Exists())
	assert.True(t, got[18].Same(known[18]))
	assert.True(t, log.has("authenticated"), "what the library says is logged")
	assert.False(t, log.has("Failed to set previous watches"))
}
