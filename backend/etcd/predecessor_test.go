package etcd_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// A fence among the ordered keys hides nobody. An earlier version put it there, beside an
// entry that may be long gone.
func TestPredecessorBehindAFence(t *testing.T) {
	f := setUp(t, 20*time.Second)
	first, second := f.enqueue(f.s), f.enqueue(f.s)
	_, err := f.operator().Put(f.ctx, second.Key+"\x00", "")
	require.NoError(t, err)
	require.NoError(t, f.s.Discard(f.ctx, first))
	require.NoError(t, f.s.Discard(f.ctx, second))

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
