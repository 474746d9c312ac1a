package etcd_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// overwrites are the ways to write over a key so that it leaves its session.
func overwrites(f *fixture, operator *clientv3.Client) map[string][]clientv3.OpOption {
	f.t.Helper()
	lease, err := operator.Grant(f.ctx, 60)
	require.NoError(f.t, err)
	return map[string][]clientv3.OpOption{"no lease": nil, "another lease": {clientv3.WithLease(lease.ID)}}
}

// An enqueued entry that somebody has written over without its lease, as `etcdctl put` does,
// stands no more for anybody: for those that wait, list or read, and under conditions. The first of
// the queue and the second have keys of different forms.
func TestEnqueuedEntryIsOverwritten(t *testing.T) {
	t.Parallel()
	f := setUp(t, 20*time.Second)
	other := f.another(20 * time.Second)
	operator := f.operator()
	for how, option := range overwrites(f, operator) {
		for i, which := range []string{"the first", "the second"} {
			t.Run(which+", "+how, func(t *testing.T) {
				f.t = t
				queue := []backend.Entry{f.enqueue(f.s), f.enqueue(f.s), f.enqueue(other.s)}
				gone := queue[i]
				left := []string{queue[1-i].Key, queue[2].Key}
				waiting := f.armed(queue[0], queue[1]) // by the watch that was made ahead
				all, err := f.s.List(f.ctx, f.dir)
				require.NoError(t, err)
				listing := later(func() (backend.Listing, error) { return other.s.AwaitList(f.ctx, all) })

				_, err = operator.Put(f.ctx, gone.Key, "foreign", option...)
				require.NoError(t, err)

				seen, err := receive(f, waiting)
				require.NoError(t, err)
				assert.False(t, seen[i].Exists(), "%+v", seen[i])
				now, err := receive(f, listing)
				require.NoError(t, err)
				assert.Equal(t, left, now.Keys)
				_, err = other.s.Get(f.ctx, gone.Key)
				assert.ErrorIs(t, err, backend.ErrNoEntry)
				_, err = f.s.Commit(f.ctx, []backend.Condition{{Entry: gone}}, backend.CompareAndSet(newRoot(), nil, 0))
				assert.ErrorIs(t, err, backend.ErrCondition)
				for _, op := range []backend.Op{backend.Update(gone, nil), backend.Delete(gone)} {
					_, err = f.s.Commit(f.ctx, nil, op)
					assert.ErrorIs(t, err, backend.ErrNoEntry, "%v", op.Kind)
				}
				_, err = f.s.Predecessor(f.ctx, gone)
				assert.ErrorIs(t, err, backend.ErrNoEntry)
				before, err := other.s.Predecessor(f.ctx, queue[2])
				require.NoError(t, err)
				assert.True(t, before.Same(queue[1-i]), "%+v", before)

				require.NoError(t, f.s.Discard(f.ctx, gone))
				for _, e := range queue[:2] {
					require.NoError(t, f.s.Discard(f.ctx, e))
				}
				require.NoError(t, other.s.Discard(f.ctx, queue[2]))
			})
		}
	}
}

// A leader whose entry is written over is deposed, and the next one leads.
func TestCandidateIsOverwritten(t *testing.T) {
	f := setUp(t, 20*time.Second)
	operator := f.operator()
	ways := overwrites(f, operator)
	for _, item := range catalog.All() {
		strategy := item.Strategy
		if !item.Lists || item.Ranked {
			continue // the leader's entry is a seat, and whoever stands on it has it
		}
		for how, option := range ways {
			t.Run(strategy.Name()+", "+how, func(t *testing.T) {
				f.t = t
				election := newRoot()
				a := newElector(f, f.Backend, strategy, election, "1")
				b := newElector(f, f.another(20*time.Second).Backend, strategy, election, "2")
				term, err := a.Campaign(f.ctx)
				require.NoError(t, err)
				waiting := later(func() (*elector.Term, error) { return b.Campaign(f.ctx) })
				wait.For(t, "the second stands", func() bool {
					all, err := b.Candidates(f.ctx)
					return err == nil && len(all) == 2
				})
				found, err := operator.Get(f.ctx, election+"/", clientv3.WithPrefix())
				require.NoError(t, err)
				at := slices.IndexFunc(found.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.Contains(string(kv.Key), "/2-") })
				require.GreaterOrEqual(t, at, 0, "%v", found.Kvs)

				_, err = operator.Put(f.ctx, string(found.Kvs[at].Key), "foreign", option...)
				require.NoError(t, err)

				next, err := receive(f, waiting)
				require.NoError(t, err)
				assert.ErrorIs(t, term.Proclaim(f.ctx, []byte("late")), elector.ErrDeposed)
				<-term.Context().Done()
				assert.ErrorIs(t, context.Cause(term.Context()), elector.ErrDeposed)
				assert.NoError(t, next.Resign(f.ctx))
			})
		}
	}
}
