package consul_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// An entry that the servers refused to remove is removed as soon as it may be: the session
// may go on for others.
func TestRefusedDropGoesOn(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, ACL: true})
	f := processOn(t, consultest.Options{Token: token(t, server, "ann", enough)}, server)
	f.s, f.dir = f.open(), "/a/d"
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
	e, kept := f.enqueue(f.s), f.enqueue(f.s)
	operator, err := consultest.Operator(server)
	require.NoError(t, err)
	policy, _, err := operator.ACL().PolicyReadByName("ann", nil)
	require.NoError(t, err)
	may := func(rules string) {
		t.Helper()
		policy.Rules = rules
		_, _, err := operator.ACL().PolicyUpdate(policy, nil)
		require.NoError(t, err)
	}
	may(enough + `key_prefix "a/d/" { policy = "read" }`)
	for range 2 {
		err := f.s.Discard(f.ctx, e)
		require.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, "not confirmed yet")
	}
	got, err := f.s.Get(f.ctx, e.Key)
	require.NoError(t, err)
	assert.True(t, got.Same(e))
	may(enough)
	wait.For(t, "the entry goes", func() bool {
		l, err := f.s.List(f.ctx, f.dir)
		return err == nil && len(l.Keys) == 1 && l.Keys[0] == kept.Key
	})
	assert.Equal(t, backend.Live, f.s.State())
	require.NoError(t, f.s.Discard(f.ctx, e))
}
