package etcd_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	arriving = f.Commits(f.S, backend.Enqueue(dir, nil))
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
			f.T = t
			first := f.Enqueue(other.S)
			lose()
			second := f.Enqueue(f.S)
			third := f.Enqueue(other.S)
			for _, s := range []*backend.Session{f.S, other.S} {
				f.Lists(s, first, second, third)
				f.Follows(s, second, first)
				f.Follows(s, third, second)
			}
			f.Same(second, f.Get(other.S, second.Key))
			f.Discard(other.S, first, third)
			f.Discard(f.S, second)
		})
	}
}

// If another Enqueue completes between the steps of one, the first to arrive stays first for everybody,
// and waits on it see its end.
func TestAnotherEnqueuesBetweenTheSteps(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	leader := f.Enqueue(other.S)
	arriving, release := f.heldUp(f.Dir)
	last := f.Enqueue(other.S)
	before := must.Get(other.S.Predecessor(f.Ctx, last))(t)
	require.True(t, before.Exists())
	require.False(t, before.Same(leader), "the one that is between its steps has arrived first")
	f.Lists(other.S, leader, before, last)
	waiting := other.armed(before, last)
	release()
	made := wait.Value(f.T, arriving)
	assert.Equal(t, before.Rev, made[0].Rev, "its place is that of its arrival")
	f.Follows(other.S, last, made[0])
	f.Follows(f.S, made[0], leader)
	f.Discard(f.S, made[0])
	f.Told(waiting, backend.Entry{}, last)
}

// If the entry before one is still on its way when the second step is done, but then arrives, the session knows
// it without another read.
func TestPredecessorArrivesMeanwhile(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	leader := f.Enqueue(other.S)
	arriving, release := f.heldUp(f.Dir)
	var before backend.Entry
	arrives := sync.OnceFunc(func() {
		release()
		before = wait.Value(f.T, arriving)[0]
	})
	stepped, more := false, 0
	other.LoseRequest(func(txn *etcdserverpb.TxnRequest) bool {
		if stepped {
			arrives()
			more++
		}
		stepped = stepped || secondStep(txn)
		return false
	})
	last := other.Enqueue(other.S)
	f.Follows(other.S, last, before)
	assert.Equal(t, 1, more, "requests after the second step")
	f.Lists(f.S, leader, before, last)
	waiting := other.armed(before, last)
	f.Discard(f.S, before)
	f.Told(waiting, backend.Entry{}, last)
}

// An Enqueue after a survey that has found others there does not look whether there are any, and leads if they
// have gone since.
func TestSurveyedEntriesAreGone(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	first := f.Enqueue(other.S)
	_, _, err := f.S.Survey(f.Ctx, backend.Parent(f.Dir), func(backend.Entry) string { return f.Dir })
	require.NoError(t, err)
	f.Discard(other.S, first)
	looks := false
	f.LoseRequest(func(txn *etcdserverpb.TxnRequest) bool {
		looks = looks || slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool { return op.GetRequestTxn() != nil })
		return false
	})
	second := f.Enqueue(f.S)
	assert.False(t, looks)
	third := f.Enqueue(other.S)
	f.Lists(f.S, second, third)
	for _, s := range []*backend.Session{f.S, other.S} {
		before, err := s.Predecessor(f.Ctx, second)
		require.NoError(t, err)
		assert.False(t, before.Exists())
		f.Follows(s, third, second)
	}
}

// An Enqueue ends if its entry, or its session, goes between the steps.
func TestEntryGoesBetweenTheSteps(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, 20*time.Second)
	leader := f.Enqueue(other.S)
	f.beforeSecondStep(func() {
		l, err := other.S.List(f.Ctx, f.Dir)
		if assert.NoError(t, err) && assert.Len(t, l.Keys, 2) {
			assert.NoError(t, etcdtest.DeleteAll(f.Servers, l.Keys[1]))
		}
	})
	e := f.Enqueue(f.S)
	_, err := f.S.Predecessor(f.Ctx, e)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	f.Told(f.Awaits(f.S, e), backend.Entry{})
	f.Discard(f.S, e)

	lost := f.another(20 * time.Second)
	lease := lost.Leases()[0]
	lost.beforeSecondStep(func() { assert.NoError(t, etcdtest.Revoke(f.Servers, lease)) })
	_, err = lost.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
	if err != nil {
		require.ErrorIs(t, err, backend.ErrSessionLost)
	}
	lost.AwaitState(lost.S, backend.Lost)
	f.Lists(other.S, leader)
}

// An Enqueue whose reply was lost succeeds if somebody helps its entry into its place before that is
// resolved.
func TestHelpedBeforeItIsResolved(t *testing.T) {
	f, other := setUpTwo(t, 20*time.Second)
	first := f.Enqueue(other.S)
	f.CutReply(etcdtest.MatchKind(backend.OpEnqueue))
	arriving := f.Commits(f.S, backend.Enqueue(f.Dir, nil))
	var l backend.Listing
	wait.For(t, "it is helped", func() bool {
		l = f.List(other.S)
		return len(l.Keys) == 2
	})
	f.Resume()
	made := wait.Value(f.T, arriving)
	assert.Equal(t, []string{first.Key, made[0].Key}, l.Keys)
	f.Follows(f.S, made[0], first)
}

// An attempt that arrives twice is done once, also if somebody helps its entry into its place in between: the
// second copy then finds no key of the first.
func TestHelpedBeforeItArrivesAgain(t *testing.T) {
	for name, behind := range map[string]bool{"behind others": true, "others are gone since the survey": false} {
		t.Run(name, func(t *testing.T) {
			var other *fixture
			var armed atomic.Bool
			f := setUp(t, 20*time.Second, unary(func(_ context.Context, req any, send func() error) error {
				txn, ok := req.(*etcdserverpb.TxnRequest)
				twice := ok && etcdtest.MatchKind(backend.OpEnqueue)(txn) && armed.CompareAndSwap(true, false)
				err := send()
				if twice {
					_, helped := other.S.List(other.Ctx, other.Dir)
					assert.NoError(t, helped)
					return status.Error(codes.Canceled, "stream terminated by RST_STREAM") // the client sends it again
				}
				return err
			}))
			other = f.another(20 * time.Second)
			first := f.Enqueue(other.S)
			must.First(f.S.Survey(f.Ctx, backend.Parent(f.Dir), func(backend.Entry) string { return f.Dir }))(t)
			if !behind {
				f.Discard(other.S, first)
			}
			armed.Store(true)
			own := f.Enqueue(f.S)
			if behind {
				f.Lists(other.S, first, own)
			} else {
				f.Lists(other.S, own)
			}
		})
	}
}

// A fence among the ordered keys, where an earlier version put it, hides no entry.
func TestPredecessorBehindAFence(t *testing.T) {
	f := setUp(t, 20*time.Second)
	first, second := f.Enqueue(f.S), f.Enqueue(f.S)
	f.puts()(second.Key + "\x00")
	f.Discard(f.S, first, second)

	slow, other := f.another(20*time.Second), f.another(20*time.Second)
	arriving, release := slow.heldUp(f.Dir)
	last := f.Enqueue(other.S)
	before, err := other.S.Predecessor(f.Ctx, last)
	release()
	require.NoError(t, err)
	f.Same(wait.Value(f.T, arriving)[0], before)
}
