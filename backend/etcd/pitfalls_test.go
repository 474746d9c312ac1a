package etcd_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// The tests named TestPitfallNN cover what the client library does wrong, or leaves
// to its user. Number 26 is in faults_watch_test.go.
// Rules and more general tests cover the others:
//
//	21  concurrency.NewSession can return neither a session nor an error: session/open,
//	    service/down, TestClientIsClosedFirst.
//	22  The client computes a lease's end from the reply: session/slow-replies, and
//	    session/suspended-too-long.
//	23  It waits for the first reply to a keep-alive as long as its own DialTimeout or 5 s,
//	    regardless of the lease's time: TestHeartbeatAnswersComeTooLate.
//	24  A keep-alive channel does not say why it was closed: session/expired.
//	25  A member may have no leader for a while: TestFaultsAreRiddenOut.
//	27  Cleaning up has no bound: errors/unanswered.
//	28  concurrency.Election must not be shared between goroutines, but a session may be: many/close,
//	    await/again, lost-reply/crowd.
//	29  Two candidates of one session are two candidates: sharing/one-election, of elections.

// counted counts the calls of the store that a process makes.
type counted struct{ calls atomic.Int64 }

func (c *counted) add(cfg *clientv3.Config) {
	unary(func(_ context.Context, req any, send func() error) error {
		switch req.(type) {
		case *etcdserverpb.TxnRequest, *etcdserverpb.RangeRequest:
			c.calls.Add(1)
		}
		return send()
	})(cfg)
}

// during returns how many calls there were during do.
func (c *counted) during(do func()) int {
	before := c.calls.Load()
	do()
	return int(c.calls.Load() - before)
}

// The steps of an election cost this many round trips to the store.
func TestRoundTrips(t *testing.T) {
	var calls counted
	f := setUp(t, time.Minute, calls.add)
	var e, next backend.Entry
	step := func(what string, most int, do func()) {
		t.Helper()
		n := calls.during(do)
		t.Logf("%s: %d", what, n)
		assert.LessOrEqual(t, n, most, what)
	}
	step("an uncontended enqueue", 1, func() { e = f.Enqueue(f.S) })
	step("the predecessor of the first", 0, func() { f.Follows(f.S, e, backend.Entry{}) })
	step("a contended enqueue", 2, func() { next = f.Enqueue(f.S) })
	step("a predecessor", 1, func() { f.Follows(f.S, next, e) })
	var waiting <-chan wait.Result[[]backend.Entry]
	step("to wait", 1, func() { waiting = f.armed(e, next) })
	step("a delete and a handover", 1, func() {
		f.Commit(f.S, backend.Delete(e))
		f.Told(waiting, backend.Entry{})
	})
	step("a guarded write", 1, func() {
		_, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(next)}, backend.CompareAndSet(f.Dir+"/x", nil, 0))
		require.NoError(t, err)
	})
	step("a read", 1, func() { f.Get(f.S, f.Dir) })
}
