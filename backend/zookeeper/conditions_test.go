package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/zktest"
)

// A user's own transaction, on the user's own connection, depends on the condition that an entry of a
// shared session below a chroot still exists.
func TestChecks(t *testing.T) {
	chroot := newRoot()
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) { cfg.Chroot = chroot })
	s := must.Get(backend.Share(f.Backend, 10*time.Second).Open(f.ctx, backend.OpenOptions{}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // its error does not matter
	other, user, state := f.open(), f.admin(), chroot+"/state"
	require.NoError(t, zktest.PutAll(user, state, nil))
	write := func(checks []any) error {
		_, err := user.Multi(append(checks, &zk.SetDataRequest{Path: state, Data: []byte("x"), Version: -1})...)
		return err
	}
	version := func() int32 {
		_, stat, err := user.Get(state)
		require.NoError(t, err)
		return stat.Version
	}
	f.commit(s, backend.CompareAndSet("/d", nil, 0))
	for name, kind := range map[string]struct {
		op     backend.Op
		failed error // after the entry has been deleted and created again
	}{
		"enqueued":   {backend.Enqueue("/d", nil), zk.ErrNoNode},
		"exclusive":  {backend.CreateEphemeral("/d/seat", nil), zk.ErrBadVersion},
		"persistent": {backend.CompareAndSet("/d/p", nil, 0), zk.ErrBadVersion},
	} {
		t.Run(name, func(t *testing.T) {
			e := f.commit(s, kind.op)[0]
			if name == "persistent" {
				e = f.commit(s, backend.Update(e, []byte("at another version than its successor")))[0]
			}
			held, err := zookeeper.Checks(f.ctx, s, backend.IfExists(e))
			require.NoError(t, err)
			unchanged := must.Get(zookeeper.Checks(f.ctx, s, backend.IfUnchanged(e)))(t)
			for _, check := range append(held, unchanged...) {
				assert.Contains(t, check.(*zk.CheckVersionRequest).Path, chroot+"/d")
			}
			before := version()
			require.NoError(t, write(held))
			require.NoError(t, write(unchanged))
			assert.Equal(t, before+2, version())

			// In a directory where others create exclusive entries, call Checks again each time.
			f.create(other, "/d/another-"+name)
			held = must.Get(zookeeper.Checks(f.ctx, s, backend.IfExists(e)))(t)
			require.NoError(t, write(held))

			f.commit(other, backend.Delete(e))
			require.ErrorIs(t, write(held), zk.ErrNoNode)
			f.commit(other, kind.op)
			require.ErrorIs(t, write(held), kind.failed)
			require.Error(t, write(unchanged))
			assert.Equal(t, before+3, version())
			if name != "enqueued" {
				_, err = zookeeper.Checks(f.ctx, s, backend.IfExists(e))
				require.ErrorIs(t, err, backend.ErrCondition)
			}
		})
	}
}

// Checks also guard an entry directly below the server's root.
func TestChecksAtTheRoot(t *testing.T) {
	f := setUp(t, nil)
	key, user := newTop(), f.admin()
	seat := f.create(f.s, key)
	seat = f.commit(f.s, backend.Update(seat, []byte("x")))[0]
	checks := must.Get(zookeeper.Checks(f.ctx, f.s, backend.IfExists(seat), backend.IfUnchanged(seat)))(t)
	must.Get(user.Multi(checks...))(t)
	other := f.open()
	f.commit(other, backend.Delete(seat))
	f.create(other, key)
	_, err := user.Multi(checks...)
	require.ErrorIs(t, err, zk.ErrBadVersion)
}

func TestChecksErrors(t *testing.T) {
	f := setUp(t, nil)
	e := f.enqueue(f.s)
	double, err := memory.New(memory.Options{}).Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer double.Close(f.ctx)
	for _, foreign := range []*backend.Session{double, nil} {
		_, err = zookeeper.Checks(f.ctx, foreign, backend.IfExists(e))
		require.ErrorContains(t, err, "not of this package")
	}
	_, err = zookeeper.Checks(f.ctx, f.s, backend.IfExists(backend.Entry{Key: "relative", Rev: 1}))
	require.ErrorIs(t, err, backend.ErrBadKey)
	_, err = zookeeper.Checks(f.ctx, f.s, backend.IfExists(backend.Entry{Key: f.dir}))
	require.ErrorIs(t, err, backend.ErrCondition)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = zookeeper.Checks(ended, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, context.Canceled)
	none := must.Get(zookeeper.Checks(f.ctx, f.s))(t)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = zookeeper.Checks(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}
