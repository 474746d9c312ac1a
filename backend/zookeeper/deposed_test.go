package zookeeper_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// apart is an ensemble of three, and one process that can be moved from one member to another.
type apart struct {
	*fixture
	*parts
	log logged
}

func setUpApart(t *testing.T) *apart {
	t.Helper()
	a := &apart{parts: startParts(t, 3, "syncLimit=15", "initLimit=15")} // they wait for each other for 30 s
	a.fixture = process(t, a.ensemble.Addrs(), func(cfg *zookeeper.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&a.log, nil))
	})
	a.whole(t, 0)
	return a
}

// only leaves one member reachable for the process.
func (a *apart) only(host int) {
	a.Only(host)
	for i, x := range a.Proxies {
		if i != host {
			x.Cut()
		}
	}
}

// awaitRequest waits until the process has sent a member a request that contains all of these.
func (a *apart) awaitRequest(host int, op int32, texts ...string) (sent func()) {
	seen := make(chan struct{})
	once := sync.OnceFunc(func() { close(seen) })
	a.T.Cleanup(a.Proxies[host].OnRequest(func(opcode int32, payload []byte) {
		if opcode == op && !slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(payload, []byte(text)) }) {
			once()
		}
	}))
	return func() {
		a.T.Helper()
		select {
		case <-seen:
		case <-a.Ctx.Done():
			a.T.Fatalf("member %d is not sent a request with opcode %d and %q", host, op, texts)
		}
	}
}

// A new leader does an Enqueue, and its reply is lost. Then the call is given up, and the session moves
// to the old leader, which is cut off and does not know it: it replies to a sync by itself, and does
// not show the entry. The session must not treat the doubt as settled there: the entry would stay in
// the session for ever.
func TestLostReplyAtADeposedLeader(t *testing.T) {
	p := setUpApart(t)
	old, rest := p.leader, p.rest
	p.only(old)
	p.begin()

	require.NoError(t, reset(p.parts))
	wait.For(t, "the others have a leader", func() bool {
		return !slices.ContainsFunc(rest, func(host int) bool {
			mode, err := p.ensemble.Members[host].Mode()
			return err != nil || mode != "leader" && mode != "follower"
		})
	})
	held, release := p.Proxies[rest[0]].HoldReply(func(op int32, _ []byte) bool {
		return op != proxytest.OpConnect && op != proxytest.OpPing
	})
	defer release()
	p.only(rest[0])
	wait.For(t, "the old link is given up", func() bool { return p.S.State() != backend.Live })
	giving, give := context.WithCancel(p.Ctx)
	given := wait.Later(func() ([]backend.Entry, error) {
		return p.S.Commit(giving, nil, backend.Enqueue(p.Dir, []byte("ghost")))
	})
	for done := false; !done; {
		select {
		case request := <-held:
			done = request.Opcode == proxytest.OpCreate2 && strings.Contains(string(request.Payload), p.Dir)
		case <-p.Ctx.Done():
			t.Fatal("the commit has not come to the new leader")
		}
	}
	give()
	_, err := wait.Returned(p.T, given)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	looked := p.counts(proxytest.MatchOp(proxytest.OpSync, proxytest.OpMulti))
	p.only(old)
	release()
	wait.For(t, "the session is at the old leader", func() bool { return looked() > 0 })
	time.Sleep(500 * time.Millisecond) // time to look there, if it trusted it
	require.NoError(t, p.network.Heal())
	p.only(rest[1])
	p.settles(p.Dir)
	assert.NotEqual(t, backend.Lost, p.S.State())
	require.NoError(t, p.S.Close(context.Background()))
}

// An Enqueue waits in a follower's connection to the leader, and is done after the session has been at
// another server, where it was sent again, and has come back. Nobody has asked for a second entry: it
// would stay in the session for ever, and block the election. An Update that is done late does nothing.
func TestRequestWaitsInAFollower(t *testing.T) {
	p := setUpApart(t)
	p.only(p.rest[0])
	p.S = p.open()
	crowd := zktest.Operator(t, p.ensemble.Addrs()[p.rest[0]])
	removed := func() int { return p.log.count("long after its link had broken") }
	// Whether the leader handles the session's return first depends on its threads.
	rounds := 0
	for ; rounds < 10 && removed() == 0; rounds++ {
		p.waits(crowd, fmt.Sprintf("/waiting%d", rounds))
	}
	t.Logf("%d late entries removed in %d rounds", removed(), rounds)
	require.NoError(t, p.S.Close(p.Ctx))
}

// waits is one round: see TestRequestWaitsInAFollower.
func (a *apart) waits(crowd *zk.Conn, dir string) {
	a.T.Helper()
	follower := a.rest[0]
	first := a.Commit(a.S, backend.CompareAndSet(dir, nil, 0), backend.Enqueue(dir, []byte("first")))[1]
	enqueued := a.awaitRequest(follower, proxytest.OpCreate2, dir, "second")
	set := a.awaitRequest(follower, proxytest.OpSetData, dir, "early")
	require.NoError(a.T, a.network.Drop(follower, a.leader))
	var asked sync.WaitGroup
	for i := range 1000 { // the leader must do these before it gets to later requests
		asked.Go(func() { _, _ = crowd.Set(dir, fmt.Appendf(nil, "%d", i), -1) })
	}
	enqueuing := wait.Later(func() ([]backend.Entry, error) { return a.S.Commit(a.Ctx, nil, backend.Enqueue(dir, []byte("second"))) })
	early := wait.Later(func() ([]backend.Entry, error) { return a.S.Commit(a.Ctx, nil, backend.Update(first, []byte("early"))) })
	enqueued()
	set()
	a.only(a.leader)
	second := wait.Value(a.T, enqueuing)
	wait.Value(a.T, early)
	a.Commit(a.S, backend.Update(first, []byte("later")))
	back := a.awaitRequest(follower, proxytest.OpConnect)
	a.only(follower)
	back()
	time.Sleep(100 * time.Millisecond) // so that the session's return is in transit, too
	require.NoError(a.T, a.network.Heal())
	asked.Wait()
	a.Commit(a.S, backend.CompareAndSet(dir+"/end", nil, 0)) // done after all waiting requests
	a.settles(dir, first.Key, second[0].Key)
	assert.Equal(a.T, "later", string(a.Get(a.S, first.Key).Value))
	for _, e := range []backend.Entry{first, second[0]} {
		require.NoError(a.T, a.S.Discard(a.Ctx, e))
	}
}
