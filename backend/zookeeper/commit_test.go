package zookeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A commit that need not learn anything costs one request. If an op implies a condition, nothing is
// sent for the condition.
func TestCommitsTakeOneRoundTrip(t *testing.T) {
	f := setUp(t, pings)
	requests := f.requests()
	e := f.Enqueue(f.S)
	seat := f.create(f.S, f.Dir+"/seat")
	_, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(e), backend.IfExists(seat)}, backend.Update(seat, []byte("v")), backend.CompareAndSet(f.Dir+"/p", nil, 0))
	require.NoError(t, err)
	require.NoError(t, f.S.Discard(f.Ctx, seat))
	require.NoError(t, f.S.Discard(f.Ctx, e))
	assert.Equal(t, []int32{
		proxytest.OpCreate2, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpDelete,
	}, requests())

	seat = f.create(f.S, f.Dir+"/seat")
	require.NoError(t, f.commitUnder(f.S, seat, backend.Update(seat, []byte("v"))))
	requests = f.requests()
	require.NoError(t, f.commitUnder(f.S, seat, backend.Delete(seat)))
	assert.Equal(t, []int32{proxytest.OpMulti}, requests())

	e = f.Enqueue(f.S)
	unchanged := []backend.Condition{backend.IfExists(e), backend.IfUnchanged(e)}
	requests = f.requests()
	_, err = f.S.Commit(f.Ctx, unchanged, backend.Update(e, []byte("the leader's")))
	require.NoError(t, err)
	_, err = f.S.Commit(f.Ctx, unchanged, backend.Update(e, nil))
	require.ErrorIs(t, err, backend.ErrCondition)
	_, err = f.S.Commit(f.Ctx, append(unchanged, backend.IfUnchanged(f.Get(f.S, e.Key))), backend.Delete(e))
	require.ErrorIs(t, err, backend.ErrCondition, "it cannot have two versions")
	assert.Equal(t, []int32{proxytest.OpSetData, proxytest.OpSetData, proxytest.OpGetData, proxytest.OpMulti}, requests())

	root := f.create(f.S, newTop())
	requests = f.requests()
	require.NoError(t, f.commitUnder(f.S, root, backend.Delete(root)))
	assert.Equal(t, []int32{proxytest.OpGetData, proxytest.OpDelete}, requests(), "its own version is the proof, and read again")
}

// An op that implies a condition fails as the condition does, no matter what was known of the entry, or
// what exists under its key now.
func TestImpliedGuard(t *testing.T) {
	f := setUp(t, nil)
	other := f.open()
	never, valued := f.Dir+"/never", f.Commit(f.S, backend.CompareAndSet(f.Dir+"/valued", []byte("mine"), 0))[0].Key
	const atRoot, enqueued, gone, persistent = "at the root", "enqueued", "gone", "persistent"
	top := newTop()
	places := map[string]func() backend.Entry{
		"in a directory":      func() backend.Entry { return f.create(f.S, f.Dir+"/seat") },
		"in one with a value": func() backend.Entry { return f.create(f.S, valued+"/seat") },
		atRoot:                func() backend.Entry { return f.create(f.S, top) },
		enqueued:              func() backend.Entry { return f.Enqueue(f.S) },
	}
	remake := map[string]func(key string){
		gone:                   func(string) {},
		"another's":            func(key string) { f.create(other, key) },
		persistent:             func(key string) { f.Commit(other, backend.CompareAndSet(key, nil, 0)) },
		"this session's again": func(key string) { f.create(f.S, key) },
	}
	for where, place := range places {
		for what, remake := range remake {
			if what == persistent && where != atRoot || what != gone && where == enqueued {
				continue // indistinguishable, see the package comment; or never used again
			}
			for _, s := range []*backend.Session{f.S, other} {
				for kind := range 4 {
					e := place()
					require.NoError(t, f.commitUnder(s, e, backend.Update(e, []byte("held"))), "the proof is learned")
					f.Commit(other, backend.Delete(e)) // the other session knows that it is gone
					remake(e.Key)
					ops := [][]backend.Op{
						{backend.Delete(e)},
						{backend.Update(e, nil)},
						{backend.CompareAndSet(never, nil, 0), backend.Delete(e)},
						{backend.CompareAndSet(never, nil, 0)}, // which implies nothing
					}[kind]
					require.ErrorIs(t, f.commitUnder(s, e, ops...), backend.ErrCondition, "%s, %s, %v", where, what, ops)
					for _, op := range []backend.Op{backend.Delete(e), backend.Update(e, nil)} {
						_, err := s.Commit(f.Ctx, nil, op)
						require.ErrorIs(t, err, backend.ErrNoEntry, "%s, %s", where, what)
					}
					f.Gone(f.S, never)
					if what != gone {
						now, err := other.Get(f.Ctx, e.Key)
						require.NoError(t, err, "the successor stands")
						require.NoError(t, f.commitUnder(s, now, backend.Delete(now)))
					}
				}
			}
		}
	}
	assert.Equal(t, "mine", string(f.Get(f.S, valued).Value))
}

// An outdated proof is read again, and the commit is done.
func TestImpliedGuardWithAnOutdatedProof(t *testing.T) {
	f := setUp(t, nil)
	other := f.open()
	record := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/record", nil, 0))[0]
	for i := range 3 {
		seat := f.create(f.S, f.Dir+"/seat")
		f.create(other, fmt.Sprintf("%s/other%d", f.Dir, i))
		require.NoError(t, f.commitUnder(f.S, record, backend.Update(record, []byte("a"))))
		f.Commit(other, backend.Update(record, []byte("b")))
		require.NoError(t, f.commitUnder(f.S, seat, backend.Update(seat, nil), backend.Update(record, nil)))
		require.NoError(t, f.commitUnder(f.S, seat, backend.Delete(seat)))
	}
	// IfUnchanged checks more than an op implies.
	seat := f.create(f.S, f.Dir+"/seat")
	f.Commit(other, backend.Update(seat, nil))
	_, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfUnchanged(seat)}, backend.Delete(seat))
	require.ErrorIs(t, err, backend.ErrCondition)
}

// Conditions are about the state before the commit's own writes.
func TestOpsDoNotGetInEachOthersWay(t *testing.T) {
	f := setUp(t, nil)
	a := f.create(f.S, f.Dir+"/a")
	require.NoError(t, f.commitUnder(f.S, a,
		backend.CreateEphemeral(f.Dir+"/b", nil), backend.Delete(a), backend.CreateEphemeral(f.Dir+"/c", nil)))
	// A value that the commit itself gives to the directory is kept, in any order.
	record := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/record", nil, 0))[0]
	f.create(f.S, record.Key+"/seat0")
	record = f.Get(f.S, record.Key)
	record = f.Commit(f.S, backend.CompareAndSet(record.Key, []byte("one"), record.Version), backend.CreateEphemeral(record.Key+"/seat1", nil))[0]
	record = f.Commit(f.S, backend.CreateEphemeral(record.Key+"/seat2", nil), backend.CompareAndSet(record.Key, []byte("two"), record.Version))[1]
	f.Commit(f.S, backend.CreateEphemeral(record.Key+"/seat3", nil), backend.Update(record, []byte("three")))
	assert.Equal(t, "three", string(f.Get(f.S, record.Key).Value))
	// The commit deletes a directory, and a CompareAndSet below it creates it again.
	d := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/d", nil, 0))[0]
	made := f.Commit(f.S, backend.Delete(d), backend.CompareAndSet(d.Key+"/x/y", nil, 0), backend.CreateEphemeral(d.Key+"/seat", nil))
	assert.Equal(t, made[1].Rev, made[2].Rev)
}

// The limit of a request is the server's own, to the byte, for thousands of small ops as for one large
// value.
func TestLimitOfManySmallOps(t *testing.T) {
	f := setUp(t, pings)
	var ops []backend.Op
	for i := range 6000 {
		ops = append(ops, backend.CompareAndSet(fmt.Sprintf("%s/%04d", f.Dir, i), []byte("v"), 0))
	}
	commit := func(pad int) error {
		_, err := f.S.Commit(f.Ctx, nil, append(ops, backend.CompareAndSet(f.Dir+"/last", make([]byte, pad), 0))...)
		return err
	}
	requests, multis := f.requests(), f.counts(proxytest.MatchOp(proxytest.OpMulti))
	pad := zookeeper.DefaultMaxRequest
	err := commit(pad)
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.ErrorContains(t, err, "over the server's limit of 1048575 (Config.MaxRequest)")
	var size int
	_, text, _ := strings.Cut(err.Error(), "a request of ")
	_, scanErr := fmt.Sscanf(text, "%d bytes", &size)
	require.NoError(t, scanErr, err)
	pad -= size - zookeeper.DefaultMaxRequest
	require.ErrorIs(t, commit(pad+1), backend.ErrTooLarge)
	assert.Empty(t, requests(), "nothing is sent")
	f.Gone(f.S, f.Dir+"/0000")

	require.NoError(t, commit(pad))
	assert.Equal(t, backend.Live, f.S.State())
	assert.EqualValues(t, 1, multis())
	assert.NotContains(t, requests(), proxytest.OpConnect, "the server has not broken the connection")
}

// The server refuses one byte more, by breaking the connection.
func TestLimitIsTheServersOwn(t *testing.T) {
	t.Parallel()
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.MaxRequest = 2 * zookeeper.DefaultMaxRequest })
	ctx, cancel := context.WithCancel(f.Ctx)
	defer cancel()
	connects := 0 // on one link after the other
	f.OnRequest(func(opcode int32, _ []byte) {
		if opcode == proxytest.OpConnect {
			if connects++; connects == 5 {
				cancel()
			}
		}
	})
	_, err := f.S.Commit(ctx, nil, backend.CompareAndSet(f.Dir+"/p", make([]byte, zookeeper.DefaultMaxRequest), 0))
	// The outcome is unknown only if the request was pending just then: each broken link is found to
	// have done nothing.
	require.ErrorIs(t, err, context.Canceled)
	f.Gone(f.S, f.Dir+"/p")
}

// An abandoned commit whose entry somebody else has removed leaves nothing to do.
func TestNothingToUndo(t *testing.T) {
	var log logged
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	admin := f.admin()
	seat := f.Dir + "/seat"
	kept := f.Enqueue(f.S)
	f.CutReply(zktest.MatchKind(backend.OpCreateEphemeral))
	ctx, cancel := context.WithCancel(f.Ctx)
	committing := wait.Later(func() ([]backend.Entry, error) {
		return f.S.Commit(ctx, nil, backend.CreateEphemeral(seat, nil), backend.CompareAndSet(f.Dir+"/p", []byte("x"), 0))
	})
	f.stands(admin, seat, true)
	cancel()
	_, err := wait.Returned(f.T, committing)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.NoError(t, zktest.DeleteAll(admin, seat))
	// Background work is done in order: the next job ends after it.
	require.ErrorIs(t, f.S.Discard(ctx, kept), context.Canceled)
	f.Resume()
	f.stands(admin, kept.Key, false)
	assert.Zero(t, log.count("removing the entry that it made")+log.count("level=ERROR"), log.String())
}

// The servers must be able to read the transaction that ends a session: a session with too many entries for that makes
// no more, until some are gone.
func TestEntriesThatServersCouldNotEnd(t *testing.T) {
	t.Parallel()
	f := setUp(t, smallest)
	all := f.fills()
	_, err := f.S.Commit(f.Ctx, nil, backend.CreateEphemeral(f.Dir+"/seat"+strings.Repeat("t", 200), nil))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	f.Commit(f.S, backend.CompareAndSet(f.Dir+"/record", nil, 0))

	require.NoError(t, f.S.Discard(f.Ctx, all[0]))
	f.Commit(f.S, backend.Delete(all[1]))
	for range 2 {
		f.Enqueue(f.S)
	}
	_, err = f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.NoError(t, f.S.Close(f.Ctx))
}

// smallest sets the lowest limit.
func smallest(cfg *zookeeper.Config) { cfg.MaxRequest = 16 << 10 }

// fills enqueues until a session with that limit makes no more entries, which must be when theirs are its only ones.
func (f *fixture) fills() (all []backend.Entry) {
	f.T.Helper()
	var err error
	for err == nil {
		var made []backend.Entry
		made, err = f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
		all = append(all, made...)
	}
	require.ErrorIs(f.T, err, backend.ErrTooLarge)
	require.ErrorContains(f.T, err, "another session")
	paths := 0
	for _, e := range all {
		paths += 4 + len(zookeeper.Path(f.S, e.Key))
	}
	require.InDelta(f.T, 2*16<<10, paths, 300)
	return all
}

// Entries that others delete take no room, if the session has seen that.
func TestDeletedEntriesTakeNoRoom(t *testing.T) {
	t.Parallel()
	f := setUp(t, smallest)
	admin := f.admin()
	for i := range 10 {
		seat := f.create(f.S, fmt.Sprint(f.Dir, "/seat", strings.Repeat("t", 200), i))
		waiting := f.awaits(seat)
		require.NoError(t, admin.Delete(seat.Key, -1))
		f.Told(waiting, backend.Entry{Key: seat.Key})
	}
	f.fills()
}

// Entries whose callers have given up take room until they are removed.
func TestAbandonedEntriesTakeRoom(t *testing.T) {
	t.Parallel()
	f := setUp(t, smallest)
	all := f.fills()
	const room = 3
	for _, e := range all[:room] {
		f.Discard(f.S, e)
	}
	sent := f.counts(proxytest.MatchOp(proxytest.OpCreate2))
	f.Each((*proxytest.Proxy).StallToClient)
	for i := range int64(room) {
		ctx, cancel := context.WithCancel(f.Ctx)
		enqueued := wait.Later(func() ([]backend.Entry, error) { return f.S.Commit(ctx, nil, backend.Enqueue(f.Dir, nil)) })
		wait.For(t, "the entry is asked for", func() bool { return sent() > i })
		cancel()
		wait.Fails(t, enqueued, backend.ErrIndeterminate)
	}
	_, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	f.Each((*proxytest.Proxy).Unstall)
	admin := f.admin()
	wait.For(t, "they are removed", func() bool {
		children, _, err := admin.Children(f.Dir)
		return err == nil && len(children) == len(all)-room
	})
	wait.For(t, "there is room for one", func() bool {
		_, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
		return err == nil
	})
}
