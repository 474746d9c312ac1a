package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// A change that was made and compacted away while the process was cut off is noticed. This test runs
// beside no other: it compacts the shared server's history.
func TestPitfall26CompactionWhileAway(t *testing.T) {
	f, other := setUpTwo(t, 30*time.Second)
	operator := f.operator()
	for _, change := range []string{"changed", "deleted", "deleted and made anew", "untouched"} {
		t.Run(change, func(t *testing.T) {
			f.t = t
			e, own := f.seat(other.s), f.enqueue(f.s)
			waiting := f.armed(e, own)
			before := f.WatchesMade()
			listing := f.awaitsList(f.s, f.list(f.s))
			wait.For(t, "a watch", func() bool { return f.WatchesMade() > before })
			f.Suspend()
			switch change {
			case "changed":
				f.commit(other.s, backend.Update(e, []byte("new")))
			case "untouched":
			default:
				f.commit(other.s, backend.Delete(e))
				if change != "deleted" {
					f.seat(other.s)
				}
			}
			second := f.enqueue(other.s)
			f.compact(operator)
			f.Resume()
			if change == "untouched" {
				// The change comes after it is back, whether it has read again or not.
				f.state(backend.Live)
				still(f, waiting)
				f.commit(other.s, backend.Update(e, []byte("new")))
			}
			got := returned(f, waiting)
			assert.False(t, got[0].Same(e))
			same(f, own, got[1])
			if change == "changed" || change == "untouched" {
				assert.Equal(t, "new", string(got[0].Value))
			}
			assert.Equal(t, []string{own.Key, second.Key}, returned(f, listing).Keys)
			f.discard(f.s, own)
			f.discard(other.s, second)
			if got[0].Exists() {
				f.commit(other.s, backend.Delete(got[0]))
			}
		})
	}
}

// Waits that are given up leave no watches at the server.
func TestWatchesAreCancelled(t *testing.T) {
	f := setUp(t, 30*time.Second)
	e, own := f.enqueue(f.s), f.enqueue(f.s)
	for range 50 {
		ctx, cancel := context.WithTimeout(f.ctx, 2*time.Millisecond)
		_, err := f.s.Await(ctx, e, own)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.LessOrEqual(t, f.WatchesMade(), 2, "a subscription is kept for the next call")
	require.NoError(t, f.s.Close(f.ctx))
}
