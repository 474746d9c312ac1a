package zookeeper_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
)

const (
	manyElections = 60
	outdated      = 7 // has a condition that does not hold
	removed       = 9 // is of an entry that is gone
)

// elections makes directories below the fixture's, with an entry in each.
func (f *fixture) elections() (all []backend.Entry) {
	f.T.Helper()
	for i := range manyElections {
		dir := fmt.Sprintf("%s/e%02d", f.Dir, i)
		f.Commit(f.S, backend.CompareAndSet(dir, nil, 0))
		all = append(all, f.Commit(f.S, backend.Enqueue(dir, []byte("enqueued")))[0])
	}
	return all
}

// atOnce makes a commit for each entry while no reply comes.
func (f *fixture) atOnce(entries []backend.Entry, op func(i int, e backend.Entry) ([]backend.Condition, backend.Op)) []<-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	f.Each((*proxytest.Proxy).StallToClient)
	defer f.Each((*proxytest.Proxy).Unstall)
	var calls []func() ([]backend.Entry, error)
	for i, e := range entries {
		conditions, op := op(i, e)
		calls = append(calls, func() ([]backend.Entry, error) { return f.S.Commit(f.Ctx, conditions, op) })
	}
	return wait.Parked(f.T, calls...)
}

// Commits of many elections that come at once go together, and each fails by itself.
func TestCommitsGoTogether(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"nothing", "reply", "request"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, pings)
			entries := f.elections()
			require.NoError(t, f.admin().Delete(entries[removed].Key, -1))
			switch lost {
			case "reply":
				f.LoseReply(proxytest.MatchOp(proxytest.OpMulti))
			case "request":
				f.LoseRequest(proxytest.MatchOp(proxytest.OpMulti))
			}
			all := f.atOnce(entries, func(i int, e backend.Entry) ([]backend.Condition, backend.Op) {
				known := e
				if i == outdated {
					known.Version++
				}
				return []backend.Condition{backend.IfUnchanged(known)}, backend.Update(e, []byte("updated"))
			})
			for i, updating := range all {
				made, err := wait.Returned(t, updating)
				now, _ := f.S.Get(f.Ctx, entries[i].Key)
				switch i {
				case outdated:
					require.ErrorIs(t, err, backend.ErrCondition)
					assert.Equal(t, "enqueued", string(now.Value))
				case removed:
					if lost == "nothing" {
						require.ErrorIs(t, err, backend.ErrCondition)
					} else { // the update may have been done before
						assert.True(t, errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrIndeterminate), err)
					}
					assert.False(t, now.Exists())
				default:
					require.NoError(t, err)
					assert.True(t, now.Same(made[0]) && now.Version == 2 && string(now.Value) == "updated", now)
				}
			}
		})
	}
}

// When many elections of a process end at once, that costs few requests.
func TestElectionsEndTogether(t *testing.T) {
	t.Parallel()
	f := setUp(t, pings)
	entries := f.elections()
	requests := f.requests()
	for i, deleting := range f.atOnce(entries, func(_ int, e backend.Entry) ([]backend.Condition, backend.Op) {
		return []backend.Condition{backend.IfExists(e)}, backend.Delete(e)
	}) {
		wait.Value(t, deleting)
		f.Gone(f.S, entries[i].Key)
	}
	sent := 0
	for _, opcode := range requests() {
		if opcode == proxytest.OpDelete || opcode == proxytest.OpMulti {
			sent++
		}
	}
	assert.Less(t, sent, manyElections/4)
}

// Entries of one directory are not deleted together: who watches two of them relies on the order.
func TestEntriesOfOneDirectoryGoApart(t *testing.T) {
	t.Parallel()
	f := setUp(t, pings)
	var entries []backend.Entry
	for range 10 {
		entries = append(entries, f.Enqueue(f.S))
	}
	sent := f.counts(proxytest.MatchOp(proxytest.OpMulti))
	for _, deleting := range f.atOnce(entries, func(_ int, e backend.Entry) ([]backend.Condition, backend.Op) {
		return nil, backend.Delete(e)
	}) {
		wait.Value(t, deleting)
	}
	assert.Zero(t, sent())
}
