package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// One call waits for two entries of a directory, and another of the same session for one of them and an
// entry elsewhere. It joins the watch of the first, of which it has read a part only.
func TestApartOnTheWatchOfAnother(t *testing.T) {
	t.Parallel()
	f := setUp(t, time.Minute)
	one, two, elsewhere := f.dir+"/dir/1", f.dir+"/dir/2", f.dir+"/elsewhere"
	made := f.commit(f.s, backend.CompareAndSet(one, nil, 0), backend.CompareAndSet(two, nil, 0), backend.CompareAndSet(elsewhere, nil, 0))
	watches := f.WatchesMade()
	both := f.awaits(f.s, made[0], made[1])
	wait.For(t, "a watch on the directory", func() bool { return f.WatchesMade() == watches+1 })
	apart := f.awaits(f.s, made[0], made[2])
	wait.For(t, "a watch elsewhere, which is the last that the second call makes", func() bool { return f.WatchesMade() == watches+2 })

	changed := f.commit(f.s, backend.Update(made[1], []byte("changed")))
	seen, err := receive(f, both)
	require.NoError(t, err)
	assert.True(t, seen[0].Same(made[0]), "%+v", seen[0])
	assert.True(t, seen[1].Same(changed[0]), "%+v", seen[1])
	changed = f.commit(f.s, backend.Update(made[2], []byte("changed")))
	seen, err = receive(f, apart)
	require.NoError(t, err)
	assert.True(t, seen[0].Same(made[0]), "%+v", seen[0])
	assert.True(t, seen[1].Same(changed[0]), "%+v", seen[1])
}
