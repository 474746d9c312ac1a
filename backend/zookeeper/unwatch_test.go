package zookeeper_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// watchCount returns how many watches a server has.
func (f *fixture) watchCount() int {
	f.T.Helper()
	return int(must.Get(f.server.Metrics())(f.T)["watch_count"])
}

// A session that lives for long leaves no more than some hundred watches that nobody waits for: of keys that
// it waited for without a change, and of directories. A wait for one of them that was removed still learns of changes.
func TestUnusedWatchesAreRemoved(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true}), pings)
	const keys, most = 600, 256
	key := func(i int) string { return fmt.Sprint(f.Dir, "/k", i) }
	asked := func(wait func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(f.Ctx)
		done := make(chan error, 1)
		go func() { done <- wait(ctx) }()
		time.Sleep(time.Millisecond)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	_, _, users, err := zookeeper.Conn(f.S).ExistsW(key(0))
	require.NoError(t, err)
	for i := range keys {
		asked(func(ctx context.Context) error {
			_, err := f.S.Await(ctx, backend.Entry{Key: key(i)})
			return err
		})
	}
	wait.For(t, "no more watches than that", func() bool { return f.watchCount() <= most+1 })
	t.Logf("%d watches after %d waits for keys that nobody has created", f.watchCount(), keys)
	assert.Equal(t, 1, f.watchesOf(key(0)), "the user has it, too")
	waits := []<-chan wait.Result[[]backend.Entry]{}
	for i := range keys {
		waits = append(waits, f.Awaits(f.S, backend.Entry{Key: key(i)}))
	}
	wait.For(t, "all are watched", func() bool { return f.watchCount() >= keys })
	by := f.another(nil)
	for i := range keys {
		e := by.Commit(by.S, backend.CompareAndSet(key(i), nil, 0))[0]
		f.Told(waits[i], e)
	}
	wait.Receive(t, "the user's own watch", users)

	for i := range keys {
		known := must.Get(f.S.List(f.Ctx, key(i)))(t)
		asked(func(ctx context.Context) error {
			_, err := f.S.AwaitList(ctx, known)
			return err
		})
	}
	wait.For(t, "no more watches than that", func() bool { return f.watchCount() <= most+1 })
	known := must.Get(f.S.List(f.Ctx, key(0)))(t)
	waiting := f.AwaitsList(f.S, known)
	by.Commit(by.S, backend.Enqueue(key(0), nil))
	assert.Len(t, wait.Value(t, waiting).Keys, 1)
}

// Waits begin and end while watches are removed, and none misses a change.
func TestUnusedWatchesAreRemovedUnderWaits(t *testing.T) {
	t.Parallel()
	f := setUp(t, pings)
	admin := f.admin()
	const keys, rounds = 400, 4
	var all sync.WaitGroup
	for i := range keys {
		key := fmt.Sprint(f.Dir, "/k", i)
		all.Go(func() {
			known := backend.Entry{Key: key}
			for round := range rounds {
				for range 5 { // waits that end without a change
					ctx, cancel := context.WithTimeout(f.Ctx, time.Duration(i%7)*time.Millisecond)
					_, _ = f.S.Await(ctx, known)
					_, _ = f.S.AwaitList(ctx, backend.Listing{Dir: key, Rev: known.Rev})
					cancel()
				}
				waiting := f.Awaits(f.S, known)
				var err error
				if round == 0 {
					_, err = admin.Create(key, nil, 0, zk.WorldACL(zk.PermAll))
				} else {
					_, err = admin.Set(key, nil, -1)
				}
				if !assert.NoError(t, err) {
					return
				}
				select {
				case r := <-waiting:
					if !assert.NoError(t, r.Err) {
						return
					}
					known = r.V[0]
				case <-f.Ctx.Done():
					t.Errorf("%s: round %d was missed", key, round)
					return
				}
			}
		})
	}
	all.Wait()
}

// The user watches the same paths by the library while watches on them are removed, and none of the user's is.
func TestUnusedWatchesOfTheUserStay(t *testing.T) {
	t.Parallel()
	f := setUp(t, pings)
	admin, users, removed := f.admin(), zookeeper.Conn(f.S), f.counts(proxytest.MatchOp(wire.OpUnwatch))
	const keys, rounds = 500, 4
	var known [keys]backend.Entry
	for i := range known {
		known[i].Key = fmt.Sprint(f.Dir, "/k", i)
		must.Get(admin.Create(known[i].Key, nil, 0, zk.WorldACL(zk.PermAll)))(t)
	}
	each := func(do func(i int)) {
		var all sync.WaitGroup
		for i := range known {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	for round := range rounds {
		var changed [keys]<-chan zk.Event
		watches := func(i int) {
			var err error
			_, _, changed[i], err = users.GetW(known[i].Key)
			assert.NoError(t, err)
		}
		each(func(i int) {
			var err error
			known[i], err = f.S.Get(f.Ctx, known[i].Key)
			assert.NoError(t, err)
			if i%3 == 0 {
				watches(i)
			}
		})
		each(func(i int) {
			ctx, cancel := context.WithTimeout(f.Ctx, time.Duration(i%7)*time.Millisecond)
			defer cancel()
			_, _ = f.S.Await(ctx, known[i]) // without a change
			if i%3 == 1 {
				watches(i)
			}
		})
		must.Get(f.S.Get(f.Ctx, known[0].Key))(t) // replies come in order: all watches are set
		each(func(i int) {
			_, err := admin.Set(known[i].Key, nil, -1)
			assert.NoError(t, err)
			if i%3 == 2 {
				return
			}
			select {
			case <-changed[i]:
			case <-f.Ctx.Done():
				t.Errorf("%s: the user missed round %d", known[i].Key, round)
			}
		})
	}
	t.Logf("%d watches were removed", removed())
}

// Handovers and joins leave no watches behind.
func TestHandoversLeaveNoWatches(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true}), pings)
	handovers := 1000
	if testing.Short() {
		handovers = 100
	}
	election := newRoot()
	var stand [2]elector.Elector
	for i := range stand {
		p := process(t, f.Servers, pings)
		stand[i] = p.Stand(elector.Config{Backend: p.Backend, Election: election})
	}
	before := f.watchCount()
	term := must.Get(stand[0].Campaign(f.Ctx))(t)
	for i := range handovers {
		next := wait.Later(func() (*elector.Term, error) { return stand[(i+1)%2].Campaign(f.Ctx) })
		wait.For(t, "both stand", func() bool {
			all, err := stand[0].Candidates(f.Ctx)
			return err == nil && len(all) == 2
		})
		require.NoError(t, term.Resign(f.Ctx))
		term = wait.Value(t, next)
	}
	t.Logf("%d watches before, %d after %d handovers", before, f.watchCount(), handovers)
	assert.Less(t, f.watchCount(), before+10)
	require.NoError(t, term.Resign(f.Ctx))
}
