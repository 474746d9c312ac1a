package zookeeper_test

import (
	"slices"

	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/zktest"
)

// A user's own transaction depends on conditions on entries below a chroot.
func TestChecks(t *testing.T) {
	chroot := newRoot()
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) { cfg.Chroot = chroot })
	user, state := f.admin(), chroot+"/state"
	require.NoError(t, zktest.PutAll(user, state, nil))
	servicetest.Conditions(t, f.Backend, "/d", false, zookeeper.Checks, func(t testing.TB, checks []any) bool {
		for _, check := range checks {
			assert.Contains(t, check.(*zk.CheckVersionRequest).Path, chroot+"/d")
		}
		_, err := user.Multi(append(slices.Clone(checks), &zk.SetDataRequest{Path: state, Version: -1})...)
		if err != nil {
			assert.Contains(t, []error{zk.ErrNoNode, zk.ErrBadVersion}, err)
		}
		return err == nil
	})
}

// Checks also guard an entry directly below the server's root.
func TestChecksAtTheRoot(t *testing.T) {
	f := setUp(t, nil)
	key, user := newTop(), f.admin()
	seat := f.create(f.S, key)
	seat = f.Commit(f.S, backend.Update(seat, []byte("x")))[0]
	checks := must.Get(zookeeper.Checks(f.Ctx, f.S, backend.IfExists(seat), backend.IfUnchanged(seat)))(t)
	must.Get(user.Multi(checks...))(t)
	other := f.open()
	f.Commit(other, backend.Delete(seat))
	f.create(other, key)
	_, err := user.Multi(checks...)
	require.ErrorIs(t, err, zk.ErrBadVersion)
}
