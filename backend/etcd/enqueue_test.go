package etcd_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/wait"
)

// secondStep matches the transaction that gives an entry its place in the order of
// keys.
func secondStep(txn *etcdserverpb.TxnRequest) bool {
	for _, op := range txn.Success {
		if put := op.GetRequestPut(); put != nil && strings.Contains(string(put.Key), "/1-") {
			return true
		}
	}
	return false
}

// beforeSecondStep calls do before each second step of an Enqueue goes out. do must
// not ask the process for anything.
func (f *fixture) beforeSecondStep(do func()) {
	f.LoseRequest(func(txn *etcdserverpb.TxnRequest) bool {
		if secondStep(txn) {
			do()
		}
		return false
	})
}

// The second step's request or its reply is lost.
func TestSecondStepLost(t *testing.T) {
	f := setUp(t, 20*time.Second)
	other := f.another(20 * time.Second)
	for name, lose := range map[string]func(){
		"request":           func() { f.LoseRequest(secondStep) },
		"reply":             func() { f.LoseReply(secondStep) },
		"reply, twice":      func() { f.LoseReply(secondStep); f.LoseReply(secondStep) },
		"request and reply": func() { f.LoseRequest(secondStep); f.LoseReply(secondStep) },
		"both steps' replies": func() {
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
			f.LoseReply(secondStep)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			first := f.enqueue(other.s)
			lose()
			second := f.enqueue(f.s)
			third := f.enqueue(other.s)
			for _, s := range []*backend.Session{f.s, other.s} {
				l, err := s.List(f.ctx, f.dir)
				require.NoError(t, err)
				require.Equal(t, []string{first.Key, second.Key, third.Key}, l.Keys)
				for e, want := range map[*backend.Entry]backend.Entry{&second: first, &third: second} {
					before, err := s.Predecessor(f.ctx, *e)
					require.NoError(t, err)
					assert.True(t, before.Same(want), "%+v, want %+v", before, want)
				}
			}
			got, err := other.s.Get(f.ctx, second.Key)
			require.NoError(t, err)
			assert.True(t, got.Same(second), "%+v, want %+v", got, second)
			for _, e := range []backend.Entry{first, third} {
				require.NoError(t, other.s.Discard(f.ctx, e))
			}
			require.NoError(t, f.s.Discard(f.ctx, second))
		})
	}
}

// Between the steps of one Enqueue another goes through. Who arrived first stays
// first for everybody, and who waits for it hears of its end.
func TestAnotherEnqueuesBetweenTheSteps(t *testing.T) {
	f := setUp(t, 20*time.Second)
	other := f.another(20 * time.Second)
	leader := f.enqueue(other.s)
	reached, release := make(chan struct{}), make(chan struct{})
	f.beforeSecondStep(sync.OnceFunc(func() { close(reached); <-release }))
	arriving := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)) })
	<-reached
	last := f.enqueue(other.s)
	before, err := other.s.Predecessor(f.ctx, last)
	require.NoError(t, err)
	require.True(t, before.Exists())
	require.False(t, before.Same(leader), "the one that is between its steps has arrived first")
	l, err := other.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Equal(t, []string{leader.Key, before.Key, last.Key}, l.Keys)
	waiting := other.armed(last, before)
	close(release)
	made, err := receive(f, arriving)
	require.NoError(t, err)
	assert.Equal(t, before.Rev, made[0].Rev, "its place is that of its arrival")
	again, err := other.s.Predecessor(f.ctx, last)
	require.NoError(t, err)
	assert.True(t, again.Same(made[0]), "%+v, want %+v", again, made[0])
	first, err := f.s.Predecessor(f.ctx, made[0])
	require.NoError(t, err)
	assert.True(t, first.Same(leader))
	require.NoError(t, f.s.Discard(f.ctx, made[0]))
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, got[1].Exists())
	assert.True(t, got[0].Same(last))
}

// Between the steps the entry, or its session, goes.
func TestEntryGoesBetweenTheSteps(t *testing.T) {
	t.Parallel()
	f := setUp(t, 20*time.Second)
	other := f.another(20 * time.Second)
	leader := f.enqueue(other.s)
	f.beforeSecondStep(func() {
		l, err := other.s.List(f.ctx, f.dir)
		if assert.NoError(t, err) && assert.Len(t, l.Keys, 2) {
			assert.NoError(t, etcdtest.DeleteAll(f.Servers, l.Keys[1]))
		}
	})
	e := f.enqueue(f.s)
	_, err := f.s.Predecessor(f.ctx, e)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	got, err := f.s.Await(f.ctx, e)
	require.NoError(t, err)
	assert.False(t, got[0].Exists())
	require.NoError(t, f.s.Discard(f.ctx, e))

	lost := f.another(20 * time.Second)
	lease := lost.Leases()[0]
	lost.beforeSecondStep(func() { assert.NoError(t, etcdtest.Revoke(f.Servers, lease)) })
	_, err = lost.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	if err != nil {
		require.ErrorIs(t, err, backend.ErrSessionLost)
	}
	lost.state(backend.Lost)
	l, err := other.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Equal(t, []string{leader.Key}, l.Keys)
}

// Two entries of one transaction have one ticket. Each would stand before the other.
func TestTwoEnqueuedInOneCommit(t *testing.T) {
	f := setUp(t, 20*time.Second)
	_, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil), backend.Enqueue(f.dir, nil))
	require.ErrorContains(t, err, "two operations")
	f.commit(f.s, backend.CompareAndSet(f.dir+"/d", nil, 0))
	made := f.commit(f.s, backend.Enqueue(f.dir, nil), backend.Enqueue(f.dir+"/d", nil))
	for i, dir := range []string{f.dir, f.dir + "/d"} {
		l, err := f.s.List(f.ctx, dir)
		require.NoError(t, err)
		assert.Equal(t, []string{made[i].Key}, l.Keys)
	}
}

// Somebody helps an entry into its place before its own process, whose reply was lost,
// finds out that it stands.
func TestHelpedBeforeItIsResolved(t *testing.T) {
	f := setUp(t, 20*time.Second)
	other := f.another(20 * time.Second)
	first := f.enqueue(other.s)
	f.CutReply(etcdtest.MatchKind(backend.OpEnqueue))
	arriving := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)) })
	var l backend.Listing
	wait.For(t, "it is helped", func() bool {
		var err error
		l, err = other.s.List(f.ctx, f.dir)
		require.NoError(t, err)
		return len(l.Keys) == 2
	})
	f.Resume()
	made, err := receive(f, arriving)
	require.NoError(t, err)
	assert.Equal(t, []string{first.Key, made[0].Key}, l.Keys)
	before, err := f.s.Predecessor(f.ctx, made[0])
	require.NoError(t, err)
	assert.True(t, before.Same(first), "%+v", before)
}
