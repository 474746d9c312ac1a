package zookeeper_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// An entry that the server refused to remove is removed as soon as it may be: the session
// may go on for others.
func TestRefusedDropGoesOn(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	e, kept := f.enqueue(f.s), f.enqueue(f.s)
	admin := zktest.Operator(t, f.server.Addr())
	may := func(perms int32) {
		t.Helper()
		_, err := admin.SetACL(f.dir, zk.WorldACL(perms), -1) // that of the parent counts
		require.NoError(t, err)
	}
	may(zk.PermAll &^ zk.PermDelete)
	for range 2 {
		err := f.s.Discard(f.ctx, e)
		require.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, "not confirmed yet")
	}
	got, err := f.s.Get(f.ctx, e.Key)
	require.NoError(t, err)
	assert.True(t, got.Same(e))
	may(zk.PermAll)
	wait.For(t, "the entry goes", func() bool {
		l, err := f.s.List(f.ctx, f.dir)
		return err == nil && len(l.Keys) == 1 && l.Keys[0] == kept.Key
	})
	assert.Equal(t, backend.Live, f.s.State())
	require.NoError(t, f.s.Discard(f.ctx, e))
}
