package zookeeper_test

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/zktest"
)

// lookalike creates a node with the name of an entry that comes before all others of dir, and that no
// candidate has made.
func (f *fixture) lookalike(admin *zk.Conn, dir string, i int) {
	f.T.Helper()
	path := fmt.Sprintf("%s/e-%016x-%016x-%010d", dir, 1, i+1, 0)
	var err error
	if i%4 == 3 { // its owner is no session
		_, err = admin.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	} else {
		_, err = admin.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	}
	require.NoError(f.T, err)
}

// Nodes that no session holds are no entries, even with names of entries. There may be more of them
// than are read back, and than are remembered; each is read once. The rule data/foreign-children covers
// that elections continue among them.
func TestPredecessorBehindLookalikes(t *testing.T) {
	for _, number := range []int{3, 4, 8, 9, 10, 40} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			f := setUp(t, pings)
			admin := f.admin()
			for i := range number {
				f.lookalike(admin, f.Dir, i)
			}
			sent := f.requests()
			first := f.Enqueue(f.S)
			f.Follows(f.S, first, backend.Entry{})
			assert.LessOrEqual(t, len(sent()), number+10, "requests")

			// Some are between two candidates, too.
			sequence := first.Key[len(first.Key)-10:]
			for i := range number {
				require.NoError(t, zktest.PutAll(admin, fmt.Sprintf("%s/e-%016x-%016x-%s", f.Dir, uint64(1)<<63, i, sequence), nil))
			}
			second := f.Enqueue(f.S)
			sent = f.requests()
			f.Follows(f.S, second, first)
			assert.LessOrEqual(t, len(sent()), number+10, "requests")

			// All of them are known now.
			sent = f.requests()
			require.NoError(t, f.S.Discard(f.Ctx, first))
			f.Follows(f.S, second, backend.Entry{})
			assert.LessOrEqual(t, len(sent()), 10, "requests")
			f.Lists(f.S, second)
		})
	}
}
