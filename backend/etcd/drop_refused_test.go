package etcd_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/wait"
)

// An entry that the server refused to remove is removed as soon as it may be: the session
// may go on for others.
func TestRefusedDropGoesOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	f := setUpUser(t, ctx, server.Addr(), "ann", "/a/d")
	e, kept := f.enqueue(f.s), f.enqueue(f.s)
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	may := func(what clientv3.PermissionType) {
		t.Helper()
		_, err := root.RoleGrantPermission(ctx, "ann", "/a", "/a0", what)
		require.NoError(t, err)
	}
	may(clientv3.PermissionType(clientv3.PermRead))
	for range 2 {
		err := f.s.Discard(ctx, e)
		require.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, "not confirmed yet")
	}
	got, err := f.s.Get(ctx, e.Key)
	require.NoError(t, err)
	assert.True(t, got.Same(e))
	may(clientv3.PermissionType(clientv3.PermReadWrite))
	wait.For(t, "the entry goes", func() bool {
		l, err := f.s.List(ctx, f.dir)
		return err == nil && len(l.Keys) == 1 && l.Keys[0] == kept.Key
	})
	assert.Equal(t, backend.Live, f.s.State())
	require.NoError(t, f.s.Discard(ctx, e))
}
