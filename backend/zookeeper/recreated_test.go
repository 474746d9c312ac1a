package zookeeper_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
)

// recreate acts as an operator who deletes an entry and creates a node of its name in one transaction.
// It returns that transaction's zxid.
func recreate(t *testing.T, admin *zk.Conn, path string) uint64 {
	_, err := admin.Multi(&zk.DeleteRequest{Path: path, Version: -1},
		&zk.CreateRequest{Path: path, Data: []byte("another's"), Acl: zk.WorldACL(zk.PermAll)})
	require.NoError(t, err)
	_, stat, err := admin.Get(path)
	require.NoError(t, err)
	return uint64(stat.Czxid)
}

// ownKinds make an entry of the session that has been written to.
func ownKinds(f *fixture) map[string]func() backend.Entry {
	leads := func(e backend.Entry) backend.Entry { return f.Commit(f.S, backend.Update(e, []byte("leads")))[0] }
	n := 0
	return map[string]func() backend.Entry{
		"enqueued": func() backend.Entry { return leads(f.Enqueue(f.S)) },
		"exclusive": func() backend.Entry {
			n++
			return leads(f.create(f.S, fmt.Sprint(f.Dir, "/seat", n)))
		},
	}
}

// No guarded write is done after the guarded entry was deleted, even if a node of its name was created
// in the same transaction. A user's own transaction with Checks is refused, too.
func TestGuardNeverHitsARecreatedEntry(t *testing.T) {
	f := setUp(t, nil)
	admin := f.admin()
	for kind, remake := range ownKinds(f) {
		before := 0
		for round := range 20 {
			e := remake()
			checks := must.Get(zookeeper.Checks(f.Ctx, f.S, backend.IfExists(e)))(t)
			_, err := admin.Multi(append(checks, &zk.SetDataRequest{Path: f.Dir, Version: -1})...)
			require.NoError(t, err, kind)
			var all sync.WaitGroup
			var mu sync.Mutex
			var done []backend.Entry
			for i := range 4 {
				all.Go(func() {
					for j := 0; ; j++ {
						made, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(e)},
							backend.CompareAndSet(fmt.Sprintf("%s/state-%s-%d-%d-%d", f.Dir, kind, round, i, j), nil, 0))
						if err != nil {
							assert.ErrorIs(t, err, backend.ErrCondition)
							return
						}
						mu.Lock()
						done = append(done, made[0])
						mu.Unlock()
					}
				})
			}
			at := recreate(t, admin, e.Key)
			all.Wait()
			before += len(done)
			for _, d := range done {
				require.Less(t, d.Rev, at, "%s: a late commit was done", kind)
			}
			require.ErrorIs(t, f.commitUnder(f.S, e), backend.ErrCondition)
			require.ErrorIs(t, f.commitUnder(f.S, e, backend.Delete(e)), backend.ErrCondition)
			_, err = admin.Multi(append(checks, &zk.SetDataRequest{Path: f.Dir, Version: -1})...)
			require.ErrorIs(t, err, zk.ErrBadVersion, kind)
			_, err = zookeeper.Checks(f.Ctx, f.S, backend.IfExists(e))
			require.ErrorIs(t, err, backend.ErrCondition, kind)
			f.Refused(f.S, backend.Update(e, []byte("late")), backend.ErrNoEntry)
			require.NoError(t, f.S.Discard(f.Ctx, e))
			data := must.First(admin.Get(e.Key))(t)
			require.Equal(t, "another's", string(data))
		}
		t.Logf("%s: %d commits were done in time", kind, before)
	}
}

// Another client's write to an entry deposes nobody: the version is read again.
func TestGuardBearsAnothersWrite(t *testing.T) {
	f := setUp(t, pings)
	admin := f.admin()
	for kind, remake := range ownKinds(f) {
		e := remake()
		for i := range 3 {
			must.Get(admin.Set(e.Key, []byte("another's"), -1))(t)
			switch i {
			case 0:
				require.NoError(t, f.commitUnder(f.S, e, backend.CompareAndSet(fmt.Sprint(f.Dir, "/", kind), nil, 0)), kind)
			case 1:
				checks := must.Get(zookeeper.Checks(f.Ctx, f.S, backend.IfExists(e)))(t)
				_, err := admin.Multi(checks...)
				require.NoError(t, err, kind)
			case 2:
				require.NoError(t, f.commitUnder(f.S, e, backend.Update(e, []byte("own"))), kind)
			}
		}
		requests := f.requests()
		require.NoError(t, f.commitUnder(f.S, e, backend.Update(e, []byte("own"))), kind)
		require.NoError(t, f.commitUnder(f.S, e, backend.Delete(e)), kind)
		if kind == "enqueued" {
			assert.Equal(t, []int32{proxytest.OpSetData, proxytest.OpDelete}, requests(), "nothing is sent for the guard")
		}
	}
}
