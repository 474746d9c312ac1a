package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// A txnGate counts a client's transactions, and may hold them back.
type txnGate struct {
	mu   sync.Mutex
	sent int
	held chan struct{} // nil: they are sent
}

func (g *txnGate) client(cfg *clientv3.Config) {
	unary(func(ctx context.Context, req any, send func() error) error {
		if _, is := req.(*etcdserverpb.TxnRequest); is {
			g.mu.Lock()
			g.sent++
			held := g.held
			g.mu.Unlock()
			if held != nil {
				select {
				case <-held:
				case <-ctx.Done():
					return status.FromContextError(ctx.Err()).Err()
				}
			}
		}
		return send()
	})(cfg)
}

// count returns how many were sent.
func (g *txnGate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// during calls do while transactions are held back, releases them, calls then, and returns how many were sent.
func (g *txnGate) during(do func(), then func()) int {
	g.mu.Lock()
	before, held := g.sent, make(chan struct{})
	g.held = held
	g.mu.Unlock()
	do()
	g.mu.Lock()
	g.held = nil
	g.mu.Unlock()
	close(held)
	then()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent - before
}

// elections makes n directories below the fixture's, with an entry of s in each.
func (f *fixture) elections(n int, s *backend.Session) (all []backend.Entry) {
	f.T.Helper()
	for i := range n {
		dir := fmt.Sprintf("%s/e%02d/d", f.Dir, i)
		f.put(s, dir, "")
		all = append(all, f.Commit(s, backend.Enqueue(dir, []byte("enqueued")))[0])
	}
	return all
}

const (
	manyCommits = 60
	outdated    = 7 // has a condition that does not hold
	removed     = 9 // is of an entry that is gone
)

// updates begins to update entries, each in a commit of its own.
func (f *fixture) updates(entries []backend.Entry) []<-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	var calls []func() ([]backend.Entry, error)
	for i, e := range entries {
		known := e
		if i == outdated {
			known.Version++
		}
		calls = append(calls, func() ([]backend.Entry, error) {
			return f.S.Commit(f.Ctx, []backend.Condition{backend.IfUnchanged(known)}, backend.Update(e, []byte("updated")))
		})
	}
	return wait.Parked(f.T, calls...)
}

// updated checks what updates has done.
func (f *fixture) updated(entries []backend.Entry, all []<-chan wait.Result[[]backend.Entry]) {
	f.T.Helper()
	for i, updating := range all {
		made, err := wait.Returned(f.T, updating)
		now, _ := f.S.Get(f.Ctx, entries[i].Key)
		switch i {
		case outdated:
			require.ErrorIs(f.T, err, backend.ErrCondition)
			assert.Equal(f.T, "enqueued", string(now.Value))
		case removed:
			require.ErrorIs(f.T, err, backend.ErrCondition)
			assert.False(f.T, now.Exists())
		default:
			require.NoError(f.T, err)
			assert.True(f.T, now.Same(made[0]) && now.Version == 2 && string(now.Value) == "updated", now)
		}
	}
}

// Commits of many elections that come at once go together, and each fails by itself.
func TestCommitsGoTogether(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"nothing", "reply", "request"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			var gate txnGate
			f := setUp(t, 30*time.Second, gate.client)
			entries := f.elections(manyCommits, f.S)
			f.remove(entries[removed].Key)
			joint := func(txn *etcdserverpb.TxnRequest) bool {
				return len(txn.Compare) == 0 && len(txn.Success) > 1 && txn.Success[0].GetRequestTxn() != nil
			}
			switch lost {
			case "reply":
				f.LoseReply(joint)
			case "request":
				f.LoseRequest(joint)
			}
			var all []<-chan wait.Result[[]backend.Entry]
			sent := gate.during(func() { all = f.updates(entries) }, func() { f.updated(entries, all) })
			if lost == "nothing" {
				assert.Less(t, sent, manyCommits/4)
			}
		})
	}
}

// A commit that has waited for others and was never sent is not in doubt.
func TestCommitThatWasNeverSent(t *testing.T) {
	t.Parallel()
	var gate txnGate
	f := setUp(t, 30*time.Second, gate.client)
	entries := f.elections(6, f.S)
	var all []<-chan wait.Result[[]backend.Entry]
	unsent, before := false, gate.count()
	sent := gate.during(func() {
		for _, e := range entries[:4] {
			all = append(all, f.Commits(f.S, backend.Update(e, nil)))
		}
		wait.For(t, "four commits", func() bool { return gate.count() == before+4 })
		ctx, cancel := context.WithTimeout(f.Ctx, 10*time.Millisecond)
		defer cancel()
		_, err := f.S.Commit(ctx, nil, backend.Update(entries[4], []byte("never")))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if unsent = gate.count() == before+4; unsent { // else the machine took a tenth of a second: so long it waits for others
			assert.NotErrorIs(t, err, backend.ErrIndeterminate)
		}
	}, func() {
		for _, updating := range all {
			wait.Value(t, updating)
		}
	})
	if unsent {
		assert.Equal(t, 4, sent)
		f.Stands(f.S, entries[4])
	}
}

// Commits on one key do not go together: etcd puts a key once in a transaction.
func TestCommitsOnOneKeyGoApart(t *testing.T) {
	t.Parallel()
	var gate txnGate
	f := setUp(t, 30*time.Second, gate.client)
	e := f.elections(1, f.S)[0]
	var all []<-chan wait.Result[[]backend.Entry]
	gate.during(func() {
		update := func() ([]backend.Entry, error) { return f.S.Commit(f.Ctx, nil, backend.Update(e, nil)) }
		all = wait.Parked(t, slices.Repeat([]func() ([]backend.Entry, error){update}, 20)...)
	}, func() {
		seen := make(map[uint64]bool)
		for _, updating := range all {
			seen[wait.Value(t, updating)[0].Version] = true
		}
		assert.Len(t, seen, 20, "each has a version of its own")
	})
}

// Entries that are enqueued at once, each behind another one, get their places together.
func TestPlacesAreTakenTogether(t *testing.T) {
	t.Parallel()
	var gate txnGate
	f, other := setUpTwo(t, 30*time.Second, gate.client)
	first := f.elections(manyCommits, other.S)
	var all []<-chan wait.Result[[]backend.Entry]
	for _, e := range first {
		all = append(all, f.Commits(f.S, backend.Enqueue(backend.Parent(e.Key), nil)))
	}
	for i, enqueuing := range all {
		f.Follows(f.S, wait.Value(t, enqueuing)[0], first[i])
	}
	third := make([]backend.Entry, len(first))
	for i, e := range first { // and behind one that has just got its own
		all[i] = f.Commits(f.S, backend.Enqueue(backend.Parent(e.Key), nil))
		third[i] = f.Commit(f.S, backend.Enqueue(backend.Parent(e.Key), nil))[0]
	}
	for i, enqueuing := range all {
		second := wait.Value(t, enqueuing)[0]
		if second.Rev < third[i].Rev {
			f.Follows(f.S, third[i], second)
		} else {
			f.Follows(f.S, second, third[i])
		}
	}
}

// Reads that go together fail by themselves, too.
func TestReadsGoTogether(t *testing.T) {
	g := newGuarded(t)
	var gate txnGate
	f := &fixture{Fixture: servicetest.NewFixture(t), Process: etcdtest.NewProcess(t, []string{g.addr}, func(cfg *clientv3.Config) {
		as("ann")(cfg)
		gate.client(cfg)
	})}
	f.S = f.open(30 * time.Second)
	f.Enter("/a/d")
	entries := f.elections(manyCommits, f.S)
	list := func(dir string) func() (backend.Listing, error) {
		return func() (backend.Listing, error) { return f.S.List(f.Ctx, dir) }
	}
	var lists []func() (backend.Listing, error)
	for _, e := range entries {
		lists = append(lists, list(backend.Parent(e.Key)))
	}
	denied := slices.Clone(lists)
	denied[outdated] = list("/b")
	var all []<-chan wait.Result[backend.Listing]
	sent := gate.during(func() { all = wait.Parked(t, denied...) }, func() {
		for i, listing := range all {
			l, err := wait.Returned(t, listing)
			if i == outdated {
				require.ErrorIs(t, err, backend.ErrDenied)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, []string{entries[i].Key}, l.Keys)
		}
	})
	assert.Greater(t, sent, 4)
	for range 3 { // without the one that is denied
		sent = gate.during(func() { all = wait.Parked(t, lists...) }, func() {
			for i, listing := range all {
				assert.Equal(t, []string{entries[i].Key}, wait.Value(t, listing).Keys)
			}
		})
	}
	assert.Less(t, sent, manyCommits/4)
}
