package etcd_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
)

// A fence among the ordered keys hides nobody. One stands there from when the reply to
// a Set of an entry was lost until its session ends, the entry itself may be long gone.
func TestPredecessorBehindAFence(t *testing.T) {
	f := setUp(t, 20*time.Second)
	first, second := f.enqueue(f.s), f.enqueue(f.s)
	f.LoseReply(etcdtest.MatchKind(backend.OpSet))
	f.commit(f.s, backend.Set(second, []byte("marked")))
	require.NoError(t, f.s.Drop(f.ctx, first))
	require.NoError(t, f.s.Drop(f.ctx, second))

	slow, other := f.another(20*time.Second), f.another(20*time.Second)
	reached, release := make(chan struct{}), make(chan struct{})
	slow.beforeSecondStep(sync.OnceFunc(func() { close(reached); <-release }))
	arriving := later(func() ([]backend.Entry, error) {
		return slow.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	})
	<-reached
	last := f.enqueue(other.s)
	before, err := other.s.Predecessor(f.ctx, last)
	close(release)
	require.NoError(t, err)
	made, err := receive(f, arriving)
	require.NoError(t, err)
	assert.True(t, before.Same(made[0]), "%+v, want %+v", before, made[0])
}
