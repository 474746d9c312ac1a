package zookeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// What a condition becomes where an op of the commit implies it, and where it does not.
func TestResigningTakesOneCheck(t *testing.T) {
	f := setUp(t, pings)
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
	require.NoError(t, f.commitUnder(f.s, seat, backend.Update(seat, []byte("v"))))
	requests := f.countRequests()
	require.NoError(t, f.commitUnder(f.s, seat, backend.Delete(seat)))
	assert.Equal(t, []int32{proxytest.OpMulti}, requests.all())

	root := f.commit(f.s, backend.CreateEphemeral(fmt.Sprintf("/seat-%d", roots.Add(1)), nil))[0]
	requests = f.countRequests()
	require.NoError(t, f.commitUnder(f.s, root, backend.Delete(root)))
	assert.Equal(t, []int32{proxytest.OpGetData, proxytest.OpDelete}, requests.all(), "its own version is the proof, and read anew")
}

func (f *fixture) commitUnder(s *backend.Session, e backend.Entry, ops ...backend.Op) error {
	f.t.Helper()
	_, err := s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)}, ops...)
	return err
}

// An op that implies a condition fails as the condition does, whatever was known of the entry,
// and whatever stands under its key now.
func TestImpliedGuardOfExclusiveEntries(t *testing.T) {
	f := setUp(t, nil)
	other := f.open()
	places := map[string]string{"in a directory": f.dir + "/seat", "at the root": fmt.Sprintf("/seat-%d", roots.Add(1))}
	remake := map[string]func(key string){
		"gone":                 func(string) {},
		"another's":            func(key string) { f.commit(other, backend.CreateEphemeral(key, nil)) },
		"persistent":           func(key string) { f.commit(other, backend.CompareAndSet(key, nil, 0)) },
		"this session's again": func(key string) { f.commit(f.s, backend.CreateEphemeral(key, nil)) },
	}
	for where, key := range places {
		for what, remake := range remake {
			if what == "persistent" && where == "in a directory" {
				continue // cannot be told, see the package comment
			}
			for _, s := range []*backend.Session{f.s, other} {
				for kind := range 3 {
					seat := f.commit(f.s, backend.CreateEphemeral(key, nil))[0]
					require.NoError(t, f.commitUnder(s, seat, backend.Update(seat, []byte("held"))), "the proof is learned")
					f.commit(other, backend.Delete(seat))
					remake(key)
					ops := [][]backend.Op{
						{backend.Delete(seat)},
						{backend.Update(seat, nil)},
						{backend.CompareAndSet(f.dir+"/never", nil, 0), backend.Delete(seat)},
					}[kind]
					err := f.commitUnder(s, seat, ops...)
					require.ErrorIs(t, err, backend.ErrCondition, "%s, %s, %v", where, what, ops)
					_, err = f.s.Get(f.ctx, f.dir+"/never")
					require.ErrorIs(t, err, backend.ErrNoEntry)
					if what != "gone" {
						_, err = other.Get(f.ctx, key)
						require.NoError(t, err, "the successor stands")
					}
					if now, err := other.Get(f.ctx, key); err == nil {
						f.commit(other, backend.Delete(now))
					}
				}
			}
		}
	}
}

// A proof that is outdated is learned anew, and the commit is done.
func TestImpliedGuardWithAnOutdatedProof(t *testing.T) {
	f := setUp(t, nil)
	other := f.open()
	record := f.commit(f.s, backend.CompareAndSet(f.dir+"/record", nil, 0))[0]
	for i := range 3 {
		seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
		f.commit(other, backend.CreateEphemeral(fmt.Sprintf("%s/other%d", f.dir, i), nil))
		require.NoError(t, f.commitUnder(f.s, record, backend.Update(record, []byte("a"))))
		f.commit(other, backend.Update(record, []byte("b")))
		require.NoError(t, f.commitUnder(f.s, seat, backend.Update(seat, nil), backend.Update(record, nil)))
		require.NoError(t, f.commitUnder(f.s, seat, backend.Delete(seat)))
	}
	// IfUnchanged is more than an op implies.
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
	f.commit(other, backend.Update(seat, nil))
	_, err := f.s.Commit(f.ctx, []backend.Condition{backend.IfUnchanged(seat)}, backend.Delete(seat))
	require.ErrorIs(t, err, backend.ErrCondition)
}

// Conditions are about what stands before the commit's own writes.
func TestOpsDoNotGetInEachOthersWay(t *testing.T) {
	f := setUp(t, nil)
	a := f.commit(f.s, backend.CreateEphemeral(f.dir+"/a", nil))[0]
	_, err := f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(a)},
		backend.CreateEphemeral(f.dir+"/b", nil), backend.Delete(a), backend.CreateEphemeral(f.dir+"/c", nil))
	require.NoError(t, err)
	// A value that the commit itself gives to the directory is kept, in any order.
	record := f.commit(f.s, backend.CompareAndSet(f.dir+"/record", nil, 0))[0]
	f.commit(f.s, backend.CreateEphemeral(record.Key+"/seat0", nil))
	record, err = f.s.Get(f.ctx, record.Key)
	require.NoError(t, err)
	record = f.commit(f.s, backend.CompareAndSet(record.Key, []byte("one"), record.Version), backend.CreateEphemeral(record.Key+"/seat1", nil))[0]
	record = f.commit(f.s, backend.CreateEphemeral(record.Key+"/seat2", nil), backend.CompareAndSet(record.Key, []byte("two"), record.Version))[1]
	f.commit(f.s, backend.CreateEphemeral(record.Key+"/seat3", nil), backend.Update(record, []byte("three")))
	got, err := f.s.Get(f.ctx, record.Key)
	require.NoError(t, err)
	assert.Equal(t, "three", string(got.Value))
	// A directory is deleted and made anew by a CompareAndSet below it.
	d := f.commit(f.s, backend.CompareAndSet(f.dir+"/d", nil, 0))[0]
	made := f.commit(f.s, backend.Delete(d), backend.CompareAndSet(d.Key+"/x/y", nil, 0), backend.CreateEphemeral(d.Key+"/seat", nil))
	assert.Equal(t, made[1].Rev, made[2].Rev)
}

// A revision that was made up does not make a session blind to what comes later.
func TestMadeUpRevisions(t *testing.T) {
	f := setUp(t, nil)
	key := f.dir + "/seat"
	for range 2 {
		require.ErrorIs(t, f.commitUnder(f.s, backend.Unknown(key), backend.CompareAndSet(f.dir+"/p", nil, 0)), backend.ErrCondition)
		_, err := f.s.Commit(f.ctx, nil, backend.Delete(backend.Unknown(key)))
		require.ErrorIs(t, err, backend.ErrNoEntry)
	}
	seat := f.commit(f.s, backend.CreateEphemeral(key, nil))[0]
	require.NoError(t, f.commitUnder(f.s, seat, backend.Delete(seat)))
}

// The limit of a request is the server's own, to the byte, for thousands of small ops
// as for one large value.
func TestLimitOfManySmallOps(t *testing.T) {
	f := setUp(t, pings)
	var ops []backend.Op
	for i := range 6000 {
		ops = append(ops, backend.CompareAndSet(fmt.Sprintf("%s/%04d", f.dir, i), []byte("v"), 0))
	}
	commit := func(pad int) error {
		_, err := f.s.Commit(f.ctx, nil, append(ops, backend.CompareAndSet(f.dir+"/last", make([]byte, pad), 0))...)
		return err
	}
	requests := f.countRequests()
	pad := zookeeper.DefaultMaxRequest
	err := commit(pad)
	require.ErrorIs(t, err, backend.ErrTooLarge)
	var size int
	_, text, _ := strings.Cut(err.Error(), "a request of ")
	_, scanErr := fmt.Sscanf(text, "%d bytes", &size)
	require.NoError(t, scanErr, err)
	pad -= size - zookeeper.DefaultMaxRequest
	require.ErrorIs(t, commit(pad+1), backend.ErrTooLarge)
	assert.Empty(t, requests.all(), "nothing is sent")
	_, err = f.s.Get(f.ctx, f.dir+"/0000")
	require.ErrorIs(t, err, backend.ErrNoEntry)

	require.NoError(t, commit(pad))
	assert.Equal(t, backend.Live, f.s.State())
	requests.mu.Lock()
	defer requests.mu.Unlock()
	assert.Equal(t, 1, requests.count[proxytest.OpMulti])
	assert.Zero(t, requests.count[proxytest.OpConnect], "the server has not broken the connection")
}

// One byte more than that is what the server refuses, by breaking the connection.
func TestLimitIsTheServersOwn(t *testing.T) {
	t.Parallel()
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.MaxRequest = 2 * zookeeper.DefaultMaxRequest })
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var connects atomic.Int64
	f.Proxies[0].OnRequest(func(opcode int32, _ []byte) {
		if opcode == proxytest.OpConnect && connects.Add(1) == 5 {
			cancel()
		}
	})
	_, err := f.s.Commit(ctx, nil, backend.CompareAndSet(f.dir+"/p", make([]byte, zookeeper.DefaultMaxRequest), 0))
	// The outcome is unknown only if it was under way just then: each broken link is found to
	// have done nothing.
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.s.Get(f.ctx, f.dir+"/p")
	require.ErrorIs(t, err, backend.ErrNoEntry)
}

// warnings counts what the log says of background work.
type warnings struct {
	slog.Handler
	n atomic.Int64
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.n.Add(1)
	}
	return nil
}

// An abandoned commit whose entry somebody else has removed leaves nothing to do.
func TestNothingToUndo(t *testing.T) {
	log := &warnings{Handler: slog.DiscardHandler}
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.Logger = slog.New(log) })
	admin := zktest.Operator(t, f.server.Addr())
	seat := f.dir + "/seat"
	kept := f.enqueue(f.s)
	f.CutReply(zktest.MatchKind(backend.OpCreateEphemeral))
	ctx, cancel := context.WithCancel(f.ctx)
	committing := later(func() ([]backend.Entry, error) {
		return f.s.Commit(ctx, nil, backend.CreateEphemeral(seat, nil), backend.CompareAndSet(f.dir+"/p", []byte("x"), 0))
	})
	wait.For(t, "it is done", func() bool { ok, _, err := admin.Exists(seat); return err == nil && ok })
	cancel()
	_, err := receive(f, committing)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.NoError(t, zktest.DeleteAll(admin, seat))
	// What is done in the background is done in order: the next job ends after it.
	require.ErrorIs(t, f.s.Discard(ctx, kept), context.Canceled)
	f.Resume()
	wait.For(t, "the job after it is done", func() bool { ok, _, err := admin.Exists(kept.Key); return err == nil && !ok })
	assert.Zero(t, log.n.Load(), "warnings")
}

// What was done besides an ephemeral entry that has to be given up goes with it.
func TestUnknownOutcomeLeavesNoGhost(t *testing.T) {
	f := setUp(t, nil)
	admin := zktest.Operator(t, f.server.Addr())
	record := f.commit(f.s, backend.CompareAndSet(f.dir+"/record", nil, 0))[0]
	require.NoError(t, zktest.PutAll(admin, f.dir+"/q/d", nil))
	ops := []backend.Op{backend.CompareAndSet(record.Key, []byte("x"), record.Version), backend.Enqueue(f.dir+"/q", nil), backend.CreateEphemeral(f.dir+"/q/d/seat", nil)}
	f.CutReply(zktest.MatchKind(backend.OpEnqueue))
	committing := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, ops...) })
	wait.For(t, "it is done", func() bool { ok, _, err := admin.Exists(f.dir + "/q/d/seat"); return err == nil && ok })
	require.NoError(t, zktest.DeleteAll(admin, f.dir+"/q/d/seat"))
	f.Resume()
	_, err := receive(f, committing)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.NotErrorIs(t, err, zk.ErrNoNode)
	wait.For(t, "the enqueued entry goes", func() bool {
		l, err := f.s.List(f.ctx, f.dir+"/q")
		return err == nil && len(l.Keys) == 0
	})
}
