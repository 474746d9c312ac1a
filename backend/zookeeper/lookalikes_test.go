package zookeeper_test

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/catalog"
)

// lookalike makes a node with the name of an entry that comes before all others of dir,
// and that no candidate has made.
func (f *fixture) lookalike(admin *zk.Conn, dir string, i int) {
	f.t.Helper()
	path := fmt.Sprintf("%s/e-%016x-%016x-%010d", dir, 1, i+1, 0)
	var err error
	if i%4 == 3 { // it has an owner that is no session
		_, err = admin.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	} else {
		_, err = admin.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	}
	require.NoError(f.t, err)
}

// Nodes that no session holds, with names of entries, are no entries. There may be more of
// them than are read back, and than are remembered; each is read once.
func TestPredecessorBehindLookalikes(t *testing.T) {
	for _, number := range []int{3, 4, 8, 9, 10, 40} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			f := setUp(t, pings)
			admin := f.admin()
			for i := range number {
				f.lookalike(admin, f.dir, i)
			}
			sent := f.requests()
			first := f.enqueue(f.s)
			f.predecessorIs(first, backend.Entry{})
			assert.LessOrEqual(t, len(sent()), number+10, "requests")

			// They stand between two candidates, too.
			sequence := first.Key[len(first.Key)-10:]
			for i := range number {
				require.NoError(t, zktest.PutAll(admin, fmt.Sprintf("%s/e-%016x-%016x-%s", f.dir, uint64(1)<<63, i, sequence), nil))
			}
			second := f.enqueue(f.s)
			sent = f.requests()
			f.predecessorIs(second, first)
			assert.LessOrEqual(t, len(sent()), number+10, "requests")

			// All of them are known now.
			sent = f.requests()
			require.NoError(t, f.s.Discard(f.ctx, first))
			f.predecessorIs(second, backend.Entry{})
			assert.LessOrEqual(t, len(sent()), 10, "requests")
			f.lists(second.Key)
		})
	}
}

// Elections go on among them, and a candidate that waits asks nothing.
func TestElectionsAmongLookalikes(t *testing.T) {
	for _, item := range catalog.All() {
		strategy := item.Strategy
		if !item.Lists {
			continue // its candidates are known by one name
		}
		t.Run(strategy.Name(), func(t *testing.T) {
			f := setUp(t, pings)
			admin := f.admin()
			election := f.dir + "/election"
			newElector := func(id string) elector.Elector {
				e, err := elector.New(elector.Config{Backend: f.Backend, Strategy: strategy, Election: election, ID: id})
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close(f.ctx) })
				return e
			}
			a, b := newElector("a"), newElector("b")
			term, err := a.Campaign(f.ctx)
			require.NoError(t, err)
			dir := backend.Parent(term.Guard().Conditions[0].Entry.Key)
			require.NoError(t, term.Resign(f.ctx))
			for i := range 12 {
				f.lookalike(admin, dir, i)
			}
			term, err = a.Campaign(f.ctx)
			require.NoError(t, err)
			waiting := later(func() (*elector.Term, error) { return b.Campaign(f.ctx) })
			wait.For(t, "both stand", func() bool {
				all, err := b.Candidates(f.ctx)
				require.NoError(t, err)
				return len(all) == 2 && all[0].ID == "a" && all[0].Leads
			})
			leader, err := b.Leader(f.ctx)
			require.NoError(t, err)
			assert.Equal(t, "a", leader.ID)
			require.NoError(t, term.Resign(f.ctx))
			term, err = receive(f, waiting)
			require.NoError(t, err)
			require.NoError(t, term.Resign(f.ctx))
		})
	}
}
