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
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// secondStep matches the transaction that gives an entry its ordered key.
func secondStep(txn *etcdserverpb.TxnRequest) bool {
	for _, op := range txn.Success {
		if put := op.GetRequestPut(); put != nil && strings.Contains(string(put.Key), "/1-") {
			return true
		}
	}
	return false
}

// beforeSecondStep calls do before the first second step of an Enqueue is sent; the session may send it
// again. do must not send requests through the process.
func (f *fixture) beforeSecondStep(do func()) {
	once := sync.OnceFunc(do)
	f.LoseRequest(func(txn *etcdserverpb.TxnRequest) bool {
		if secondStep(txn) {
			once()
		}
		return false
	})
}

// heldUp stops the session between the steps of an Enqueue, until release is called.
func (f *fixture) heldUp(dir string) (arriving <-chan wait.Result[[]backend.Entry], release func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	f.beforeSecondStep(func() { close(reached); <-released })
	arriving = f.commits(f.s, backend.Enqueue(dir, nil))
	<-reached
	return arriving, func() { close(released) }
}

// An Enqueue succeeds if the second step's request or its reply is lost.
func TestSecondStepLost(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
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
				f.lists(s, first, second, third)
				f.follows(s, second, first)
				f.follows(s, third, second)
			}
			same(f, second, f.get(other.s, second.Key))
			f.discard(other.s, first, third)
			f.discard(f.s, second)
		})
	}
}

// If another Enqueue completes between the steps of one, the first to arrive stays first for everybody,
// and waits on it see its end.
func TestAnotherEnqueuesBetweenTheSteps(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	leader := f.enqueue(other.s)
	arriving, release := f.heldUp(f.dir)
	last := f.enqueue(other.s)
	before := f.predecessor(other.s, last)
	require.True(t, before.Exists())
	require.False(t, before.Same(leader), "the one that is between its steps has arrived first")
	f.lists(other.s, leader, before, last)
	waiting := other.armed(before, last)
	release()
	made := returned(f, arriving)
	assert.Equal(t, before.Rev, made[0].Rev, "its place is that of its arrival")
	f.follows(other.s, last, made[0])
	f.follows(f.s, made[0], leader)
	f.discard(f.s, made[0])
	seesGone(f, waiting, last)
}

// An Enqueue ends if its entry, or its session, goes between the steps.
func TestEntryGoesBetweenTheSteps(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, 20*time.Second)
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
	seesGone(f, f.awaits(f.s, e))
	f.discard(f.s, e)

	lost := f.another(20 * time.Second)
	lease := lost.Leases()[0]
	lost.beforeSecondStep(func() { assert.NoError(t, etcdtest.Revoke(f.Servers, lease)) })
	_, err = lost.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	if err != nil {
		require.ErrorIs(t, err, backend.ErrSessionLost)
	}
	lost.state(backend.Lost)
	f.lists(other.s, leader)
}

// Two entries of one transaction have one ticket, and would each be before the other: etcd refuses
// them.
func TestTwoEnqueuedInOneCommit(t *testing.T) {
	f := setUp(t, 20*time.Second)
	_, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil), backend.Enqueue(f.dir, nil))
	require.ErrorContains(t, err, "two operations")
	f.put(f.s, f.dir+"/d", "")
	made := f.commit(f.s, backend.Enqueue(f.dir, nil), backend.Enqueue(f.dir+"/d", nil))
	for i, dir := range []string{f.dir, f.dir + "/d"} {
		l := must.Get(f.s.List(f.ctx, dir))(t)
		assert.Equal(t, []string{made[i].Key}, l.Keys)
	}
}

// An Enqueue whose reply was lost succeeds if somebody helps its entry into its place before that is
// resolved.
func TestHelpedBeforeItIsResolved(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	first := f.enqueue(other.s)
	f.CutReply(etcdtest.MatchKind(backend.OpEnqueue))
	arriving := f.commits(f.s, backend.Enqueue(f.dir, nil))
	var l backend.Listing
	wait.For(t, "it is helped", func() bool {
		l = f.list(other.s)
		return len(l.Keys) == 2
	})
	f.Resume()
	made := returned(f, arriving)
	assert.Equal(t, []string{first.Key, made[0].Key}, l.Keys)
	f.follows(f.s, made[0], first)
}

// A fence among the ordered keys, where an earlier version put it, hides no entry.
func TestPredecessorBehindAFence(t *testing.T) {
	f := setUp(t, 20*time.Second)
	first, second := f.enqueue(f.s), f.enqueue(f.s)
	f.puts()(second.Key + "\x00")
	f.discard(f.s, first, second)

	slow, other := f.another(20*time.Second), f.another(20*time.Second)
	arriving, release := slow.heldUp(f.dir)
	last := f.enqueue(other.s)
	before, err := other.s.Predecessor(f.ctx, last)
	release()
	require.NoError(t, err)
	same(f, returned(f, arriving)[0], before)
}
