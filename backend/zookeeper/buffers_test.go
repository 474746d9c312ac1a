package zookeeper_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
)

// large is close to the largest value that a server accepts and returns.
var large = bytes.Repeat([]byte("x"), 900<<10)

// A session's buffers grow with its requests, on each of its links, also for requests that the user
// sends on the native connection.
func TestBuffersGrow(t *testing.T) {
	f := setUp(t, nil)
	key := f.Dir + "/large"
	reader, user := f.open(), f.open()
	holds := func(s *backend.Session) {
		t.Helper()
		got := must.Get(s.Get(f.Ctx, key))(t)
		assert.True(t, bytes.Equal(large, got.Value), "%d bytes", len(got.Value))
	}
	e := f.Commit(f.S, backend.CompareAndSet(key, large, 0))[0]
	holds(reader)
	f.Suspend()
	f.Resume()
	f.Commit(f.S, backend.CompareAndSet(key, large, e.Version))
	holds(reader)
	stat := must.Get(zookeeper.Conn(user).Set(zookeeper.Path(user, key), large, -1))(t)
	assert.EqualValues(t, 2, stat.Version)
	holds(reader)
}

// The buffer for requests grows by more than it must, because each growth takes a round trip.
func TestBuffersGrowSeldom(t *testing.T) {
	f := setUp(t, pings)
	e := f.create(f.S, f.Dir+"/seat")
	requests := f.requests()
	for size := range 4 {
		e = f.Commit(f.S, backend.Update(e, large[:(5+size)<<10-200]))[0]
	}
	assert.Equal(t, []int32{proxytest.OpExists, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpMulti}, requests())
}

// A session without large requests is small once it has had a heartbeat, and most of that is the test's
// proxy. The client library's buffers alone would be 2.5 MB.
func TestSessionsAreSmall(t *testing.T) {
	f := setUp(t, sessionTimeout(10*time.Second))
	const sessions, most = 20, 500 << 10
	before := heap()
	for range sessions {
		f.Commit(f.open(), backend.Enqueue(f.Dir, nil))
	}
	wait.For(t, "the library's first buffers are let go of", func() bool {
		return (heap()-before)/sessions < most
	})
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
