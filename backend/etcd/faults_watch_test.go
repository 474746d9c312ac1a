package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// armed starts an Await of what none was of before, and returns once the servers
// have made its watch: since the fixture's session has enqueued the entry, if it has enqueued one.
func (f *fixture) armed(known ...backend.Entry) <-chan result[[]backend.Entry] {
	f.t.Helper()
	before := f.WatchesMade()
	if own := f.enqueued; own != "" && slices.ContainsFunc(known, func(e backend.Entry) bool { return e.Key == own }) {
		before, f.enqueued = f.made, ""
	}
	waiting := later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, known...) })
	wait.For(f.t, "a watch", func() bool { return f.WatchesMade() > before })
	return waiting
}

// still checks that a call has not returned.
func still[T any](f *fixture, answer <-chan result[T]) {
	f.t.Helper()
	select {
	case r := <-answer:
		f.t.Fatalf("returned %+v, %v", r.v, r.err)
	default:
	}
}

// compact makes the servers forget all that was before now.
func (f *fixture) compact(operator *clientv3.Client) {
	f.t.Helper()
	now, err := operator.Put(f.ctx, f.dir+"-compacted", "")
	require.NoError(f.t, err)
	_, err = operator.Compact(f.ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(f.t, err)
}

// A change that was made and compacted away while the process was cut off. It runs beside no other
// test: the history that goes is that of the shared server.
func TestPitfall26CompactionWhileAway(t *testing.T) {
	f := setUp(t, 30*time.Second)
	other := f.another(30 * time.Second)
	operator := f.operator()
	for _, change := range []string{"changed", "deleted", "deleted and made anew", "untouched"} {
		t.Run(change, func(t *testing.T) {
			f.t = t
			key := fmt.Sprintf("%s/seat of %s", f.dir, change)
			e := f.commit(other.s, backend.CreateEphemeral(key, []byte("old")))[0]
			own := f.enqueue(f.s)
			waiting := f.armed(e, own)
			f.Suspend()
			switch change {
			case "changed":
				f.commit(other.s, backend.Update(e, []byte("new")))
			case "untouched":
			default:
				f.commit(other.s, backend.Delete(e))
				if change != "deleted" {
					f.commit(other.s, backend.CreateEphemeral(key, []byte("new")))
				}
			}
			f.compact(operator)
			f.Resume()
			if change == "untouched" {
				// The change comes after it is back, and has read again or not yet.
				f.state(backend.Live)
				still(f, waiting)
				f.commit(other.s, backend.Update(e, []byte("new")))
			}
			got, err := receive(f, waiting)
			require.NoError(t, err)
			assert.False(t, got[0].Same(e))
			assert.True(t, got[1].Same(own))
			if change == "changed" || change == "untouched" {
				assert.Equal(t, "new", string(got[0].Value))
			}
			require.NoError(t, f.s.Discard(f.ctx, own))
		})
	}
}

// A listing that is awaited over a compaction. It runs beside no other, too.
func TestPitfall26CompactionOfAListing(t *testing.T) {
	f := setUp(t, 30*time.Second)
	other := f.another(30 * time.Second)
	e := f.enqueue(other.s)
	known, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	before := f.WatchesMade()
	waiting := later(func() (backend.Listing, error) { return f.s.AwaitList(f.ctx, known) })
	wait.For(t, "a watch", func() bool { return f.WatchesMade() > before })
	f.Suspend()
	require.NoError(t, other.s.Discard(f.ctx, e))
	f.compact(f.operator())
	f.Resume()
	now, err := receive(f, waiting)
	require.NoError(t, err)
	assert.Empty(t, now.Keys)
}

// The stream breaks at about the instant of the change, sooner or later.
func TestWatchCutWhileItChanges(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	other := f.another(30 * time.Second)
	for i := range 30 {
		e, own := f.enqueue(other.s), f.enqueue(f.s)
		waiting := f.armed(e, own)
		cut := make(chan struct{})
		go func() {
			defer close(cut)
			time.Sleep(time.Duration(i%10) * 200 * time.Microsecond) // anywhere around the change
			f.Cut()
		}()
		require.NoError(t, other.s.Discard(f.ctx, e))
		got, err := receive(f, waiting)
		require.NoError(t, err)
		assert.False(t, got[1].Exists() && got[0].Exists())
		assert.True(t, got[1].Same(own))
		<-cut
		require.NoError(t, f.s.Discard(f.ctx, own))
	}
	assert.NotEqual(t, backend.Lost, f.s.State())
}

// What is held up on its way does not disturb the order: the own entry's end is
// never missed.
func TestHeldWatchesKeepTheirOrder(t *testing.T) {
	f := setUp(t, 30*time.Second)
	other := f.another(30 * time.Second)
	e, own := f.enqueue(other.s), f.enqueue(f.s)
	waiting := f.armed(e, own)
	release := f.HoldWakeups()
	f.commit(other.s, backend.Delete(own))
	require.NoError(t, other.s.Discard(f.ctx, e))
	got, err := f.s.Get(f.ctx, f.dir)
	require.NoError(t, err, "calls go on")
	assert.Equal(t, f.dir, got.Key)
	release()
	both, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, both[1].Exists(), "the own entry's end came first")
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

// A watch that is behind tells of what the caller knows to be past: it has been shown
// what its own session has written since.
func TestWatchBehindItsOwnWrites(t *testing.T) {
	f := setUp(t, 20*time.Second)
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
	waiting := f.armed(seat) // it keeps the watch
	release := f.HoldWakeups()
	f.commit(f.s, backend.Delete(seat))
	again := f.commit(f.s, backend.CreateEphemeral(seat.Key, nil))[0]
	next := f.awaits(f.s, seat)
	still(f, next)
	release()
	_, err := receive(f, waiting)
	require.NoError(t, err)
	got, err := receive(f, next)
	require.NoError(t, err)
	assert.True(t, got[0].Same(again), "%+v, want %+v", got[0], again)
}
