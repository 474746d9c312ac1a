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
	for _, change := range []string{"changed", "deleted", "deleted and made again", "untouched"} {
		t.Run(change, func(t *testing.T) {
			f.T = t
			e, own := f.seat(other.S), f.Enqueue(f.S)
			waiting := f.armed(e, own)
			before := f.WatchesMade()
			listing := f.AwaitsList(f.S, f.List(f.S))
			wait.For(t, "a watch", func() bool { return f.WatchesMade() > before })
			f.Suspend()
			switch change {
			case "changed":
				f.Commit(other.S, backend.Update(e, []byte("new")))
			case "untouched":
			default:
				f.Commit(other.S, backend.Delete(e))
				if change != "deleted" {
					f.seat(other.S)
				}
			}
			second := f.Enqueue(other.S)
			f.compact(operator)
			f.Resume()
			if change == "untouched" {
				// The change comes after it is back, whether it has read again or not.
				f.AwaitState(f.S, backend.Live)
				wait.Pending(f.T, waiting)
				f.Commit(other.S, backend.Update(e, []byte("new")))
			}
			got := wait.Value(f.T, waiting)
			assert.False(t, got[0].Same(e))
			f.Same(own, got[1])
			if change == "changed" || change == "untouched" {
				assert.Equal(t, "new", string(got[0].Value))
			}
			assert.Equal(t, []string{own.Key, second.Key}, wait.Value(f.T, listing).Keys)
			f.Discard(f.S, own)
			f.Discard(other.S, second)
			if got[0].Exists() {
				f.Commit(other.S, backend.Delete(got[0]))
			}
		})
	}
}

// Waits that are given up leave no watches at the server.
func TestWatchesAreCancelled(t *testing.T) {
	f := setUp(t, 30*time.Second)
	e, own := f.Enqueue(f.S), f.Enqueue(f.S)
	for range 50 {
		ctx, cancel := context.WithTimeout(f.Ctx, 2*time.Millisecond)
		_, err := f.S.Await(ctx, e, own)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.LessOrEqual(t, f.WatchesMade(), 2, "a subscription is kept for the next call")
	require.NoError(t, f.S.Close(f.Ctx))
}
