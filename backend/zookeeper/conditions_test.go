package zookeeper_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A user's own transaction, on a connection of the user's own, under the condition
// that an entry of a shared session below a chroot still stands.
func TestChecks(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	chroot := newRoot()
	p := zktest.NewProcess(t, []string{server.Addr()}, func(cfg *zookeeper.Config) { cfg.Chroot = chroot })
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	open := func(b backend.Backend) *backend.Session {
		s, err := b.Open(ctx, backend.OpenOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close(context.Background()) }) // nothing is left to learn from it
		return s
	}
	s, other := open(backend.Share(p.Backend, 10*time.Second)), open(p.Backend)
	user := zktest.Operator(t, server.Addr())
	state := chroot + "/state"
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
	commit := func(s *backend.Session, ops ...backend.Op) []backend.Entry {
		made, err := s.Commit(ctx, nil, ops...)
		require.NoError(t, err)
		return made
	}
	commit(s, backend.CompareAndSet("/d", nil, 0))
	for name, kind := range map[string]struct {
		make   func(by *backend.Session) backend.Entry
		failed error // once the entry has been deleted and made anew
	}{
		"enqueued":   {func(by *backend.Session) backend.Entry { return commit(by, backend.Enqueue("/d", nil))[0] }, zk.ErrNoNode},
		"exclusive":  {func(by *backend.Session) backend.Entry { return commit(by, backend.CreateEphemeral("/d/seat", nil))[0] }, zk.ErrBadVersion},
		"persistent": {func(by *backend.Session) backend.Entry { return commit(by, backend.CompareAndSet("/d/p", nil, 0))[0] }, zk.ErrBadVersion},
	} {
		t.Run(name, func(t *testing.T) {
			e := kind.make(s)
			if name == "persistent" {
				e = commit(s, backend.Update(e, []byte("at another version than its successor")))[0]
			}
			held, err := zookeeper.Checks(ctx, s, backend.IfExists(e))
			require.NoError(t, err)
			unchanged, err := zookeeper.Checks(ctx, s, backend.IfUnchanged(e))
			require.NoError(t, err)
			for _, check := range append(held, unchanged...) {
				assert.Contains(t, check.(*zk.CheckVersionRequest).Path, chroot+"/d")
			}
			before := version()
			require.NoError(t, write(held))
			require.NoError(t, write(unchanged))
			assert.Equal(t, before+2, version())

			// In a directory where others create exclusive entries, ask anew each time.
			commit(other, backend.CreateEphemeral("/d/another-"+name, nil))
			held, err = zookeeper.Checks(ctx, s, backend.IfExists(e))
			require.NoError(t, err)
			require.NoError(t, write(held))

			commit(other, backend.Delete(e))
			require.ErrorIs(t, write(held), zk.ErrNoNode)
			kind.make(other)
			require.ErrorIs(t, write(held), kind.failed)
			require.Error(t, write(unchanged))
			assert.Equal(t, before+3, version())
			if name != "enqueued" {
				_, err = zookeeper.Checks(ctx, s, backend.IfExists(e))
				require.ErrorIs(t, err, backend.ErrCondition)
			}
		})
	}
}

// What guards an entry right below the server's root.
func TestChecksAtTheRoot(t *testing.T) {
	f := setUp(t, nil)
	key := fmt.Sprintf("/seat-%d", roots.Add(1))
	user := zktest.Operator(t, f.server.Addr())
	seat := f.commit(f.s, backend.CreateEphemeral(key, nil))[0]
	seat = f.commit(f.s, backend.Update(seat, []byte("x")))[0]
	checks, err := zookeeper.Checks(f.ctx, f.s, backend.IfExists(seat), backend.IfUnchanged(seat))
	require.NoError(t, err)
	_, err = user.Multi(checks...)
	require.NoError(t, err)
	other := f.open()
	f.commit(other, backend.Delete(seat))
	f.commit(other, backend.CreateEphemeral(key, nil))
	_, err = user.Multi(checks...)
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
	none, err := zookeeper.Checks(f.ctx, f.s)
	require.NoError(t, err)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = zookeeper.Checks(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}
