package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

func newLines(t *testing.T, endpoints ...string) *lines {
	return &lines{client: unconnected(t, endpoints...)}
}

func (l *lines) mustChoose(t *testing.T, has *line, failed bool) *line {
	t.Helper()
	o := must.Get(l.choose(has, failed))(t)
	if o != has {
		l.leave(has)
	}
	return o
}

func isClosed(o *line) bool { return o.conn.GetState() == connectivity.Shutdown }

// Sessions share a line, and one that is not served there moves to the next endpoint without taking the
// line from the others.
func TestLinesAreShared(t *testing.T) {
	endpoints := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	l := newLines(t, endpoints...)
	a, b := l.mustChoose(t, nil, false), l.mustChoose(t, nil, false)
	assert.Same(t, a, b)
	assert.Same(t, a, l.mustChoose(t, a, false))
	seen := map[string]bool{a.endpoint: true}
	moved := a
	for range endpoints[1:] {
		moved = l.mustChoose(t, moved, true)
		seen[moved.endpoint] = true
	}
	assert.Len(t, seen, 3, "all are tried")
	assert.Len(t, l.open, 2, "none is open that nobody uses")
	assert.False(t, isClosed(b))
	assert.Same(t, moved, l.mustChoose(t, b, true), "the others follow")
	assert.True(t, isClosed(b))
	l.leave(moved)
	assert.False(t, isClosed(moved))
	l.leave(moved)
	assert.True(t, isClosed(moved))
	assert.Empty(t, l.open)
}

// A line that is slow to connect is kept while others are tried, once.
func TestNewLinesAreKept(t *testing.T) {
	l := newLines(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
	k := keeper{lines: l}
	fails := func() *line {
		t.Helper()
		has := k.line
		k.failed = true
		require.NoError(t, k.next())
		assert.NotSame(t, has, k.line)
		return has
	}
	require.NoError(t, k.next())
	first := fails()
	fails()
	third := fails()
	assert.Same(t, first, k.line, "it is used again")
	assert.Len(t, l.open, 3)
	fails()
	assert.True(t, isClosed(first), "it has failed twice")
	fails()
	third.answered.Store(true)
	assert.Same(t, third, fails())
	assert.True(t, isClosed(third), "it was connected")
	k.end()
	assert.Empty(t, l.open)
}

// Lines follow the client's endpoints, and with one endpoint there is no need of a line.
func TestLinesFollowTheClient(t *testing.T) {
	l := newLines(t, "127.0.0.1:1")
	own := l.mustChoose(t, nil, false)
	assert.Same(t, l.client.ActiveConnection(), own.conn)
	assert.Same(t, own, l.mustChoose(t, own, false))
	l.client.SetEndpoints("127.0.0.1:1", "127.0.0.1:2")
	a := l.mustChoose(t, own, false)
	assert.NotSame(t, own.conn, a.conn)
	l.client.SetEndpoints("127.0.0.1:3", "127.0.0.1:4")
	b := l.mustChoose(t, a, false)
	assert.Contains(t, l.client.Endpoints(), b.endpoint)
	assert.True(t, isClosed(a))
	l.client.SetEndpoints("127.0.0.1:3")
	again := l.mustChoose(t, b, false)
	assert.Same(t, l.client.ActiveConnection(), again.conn)
	assert.True(t, isClosed(b))
	l.leave(again)
	assert.False(t, isClosed(again), "it is the user's")
	l.client.SetEndpoints("127.0.0.1:1", "127.0.0.1:2")
	last := l.mustChoose(t, again, true)
	_ = l.client.Close()
	assert.Eventually(t, func() bool { return isClosed(last) }, wait.Patience, time.Millisecond)
	l.leave(last)
}
