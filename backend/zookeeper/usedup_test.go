package zookeeper_test

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// usedUp starts a server and makes a directory there whose counter is near its end.
func usedUp(t *testing.T, left int32) *fixture {
	servertest.Long(t, "a server that starts again and again")
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	f := setUpOn(t, server, nil)
	first := f.Enqueue(f.S) // so that the directory has a counter to raise
	require.NoError(t, f.S.Discard(f.Ctx, first))
	require.NoError(t, server.SetCounter(f.Dir, math.MaxInt32-left))
	f.S = f.open() // the first one may not have survived it
	return f
}

// Pitfall 19, on a server: the entries of the last numbers keep their order, and no other entry gets
// in, no matter what else creates nodes there, or who asks at the same time. The rule write/used-up
// covers the order.
func TestPitfall19OverTheEnd(t *testing.T) {
	f := usedUp(t, 4)
	// Newer sessions have higher IDs, by which names with equal numbers would sort.
	sessions := []*backend.Session{f.S}
	for range 7 {
		sessions = append([]*backend.Session{f.open()}, sessions...)
	}
	var want []string
	for _, s := range sessions[4:] {
		want = append(want, f.Enqueue(s).Key)
	}
	require.Len(t, want, 4)
	var all sync.WaitGroup
	for _, s := range sessions {
		all.Go(func() {
			for range 5 {
				_, err := s.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, []byte("late")))
				assert.ErrorIs(t, err, backend.ErrUsedUp)
				assert.ErrorContains(t, err, f.Dir)
				l, err := s.List(f.Ctx, f.Dir)
				assert.NoError(t, err)
				assert.Equal(t, want, l.Keys)
			}
		})
	}
	all.Wait()
	children, _, err := f.admin().Children(f.Dir)
	require.NoError(t, err)
	assert.Len(t, children, len(want), "nothing is left of those that were refused")
	// The refusal persists when all are gone, and after a restart.
	for _, s := range sessions {
		require.NoError(t, s.Close(f.Ctx))
	}
	for range 2 {
		s := f.open()
		f.Refused(s, backend.Enqueue(f.Dir, nil), backend.ErrUsedUp)
		require.NoError(t, f.server.Restart())
	}
}

// A refused Enqueue whose reply was lost is refused all the same. Writes beside it are not reported as
// undone, and no other ephemeral entry beside it stays.
func TestPitfall19LostRepliesAndOthers(t *testing.T) {
	f := usedUp(t, 0)
	f.LoseReply(zktest.MatchKind(backend.OpEnqueue))
	f.Refused(f.S, backend.Enqueue(f.Dir, nil), backend.ErrUsedUp)
	f.LoseRequest(zktest.MatchKind(backend.OpEnqueue))
	_, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil), backend.CreateEphemeral(f.Dir+"/seat", nil))
	require.ErrorIs(t, err, backend.ErrUsedUp)
	_, err = f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil), backend.CompareAndSet(f.Dir+"-kept", nil, 0), backend.CreateEphemeral(f.Dir+"/seat", nil))
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.NotErrorIs(t, err, backend.ErrUsedUp)
	f.Get(f.S, f.Dir+"-kept")

	ctx, cancel := context.WithCancel(f.Ctx)
	defer cancel()
	f.CutReply(func(opcode int32, payload []byte) bool {
		match := zktest.MatchKind(backend.OpEnqueue)(opcode, payload)
		if match {
			cancel()
		}
		return match
	})
	_, err = f.S.Commit(ctx, nil, backend.Enqueue(f.Dir, nil))
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	f.Resume()
	admin := f.admin()
	wait.For(t, "nothing is left", func() bool {
		children, _, err := admin.Children(f.Dir)
		return err == nil && len(children) == 0
	})
}
