package zookeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

const throttled = -127 // ZooKeeper's code for a request that waited for too long in its queue

// TestLeaderWithoutAQuorum: a leader whose followers have gone goes on leading for a while,
// answers syncs and handshakes, and counts sessions. None of that may move the window.
func TestLeaderWithoutAQuorum(t *testing.T) {
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{"syncLimit=150"}})
	leader, err := e.WaitLeader(wait.Patience)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	p := zktest.NewProcess(t, []string{leader.Addr()}, sessionTimeout(10*time.Second))
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	for _, f := range e.Followers() {
		require.NoError(t, f.Pause())
		defer func() { require.NoError(t, f.Resume()) }()
	}
	paused := time.Now()
	latest := paused.Add(s.TTL())
	p.Cut()
	for state := s.State(); state != backend.Lost; {
		state, err = s.AwaitState(ctx, state)
		require.NoError(t, err)
		t.Logf("%v after the pause: %v, deadline %v after it", time.Since(paused), state, s.Deadline().Sub(paused))
	}
	assert.False(t, s.Deadline().After(latest), "what was sent after the last vote has moved the window")
	mode, err := leader.Mode()
	require.NoError(t, err)
	assert.Equal(t, servertest.ModeLeader, mode, "it has noticed: this was no test")
	assert.Greater(t, p.Proxies[0].Accepted(), 1, "there was no second handshake")
}

// TestRefusedHeartbeats: a server that refuses a few requests does not end the session, for
// whatever reason it gives.
func TestRefusedHeartbeats(t *testing.T) {
	t.Parallel()
	const closing, moved = -116, -118 // these mean that the link is of no more use
	for _, code := range []int32{throttled, closing, moved} {
		for _, op := range []int32{proxytest.OpSync, proxytest.OpMulti} {
			t.Run(fmt.Sprintf("code %d, opcode %d", code, op), func(t *testing.T) {
				t.Parallel() // it mostly waits
				f := setUp(t, nil)
				<-f.Proxies[0].RefuseReply(proxytest.MatchOp(op), code, 1)
				// A heartbeat that began later than the refusal is confirmed.
				after := time.Now().Add(f.s.TTL() * 7 / 8)
				wait.For(t, "the deadline moves on", func() bool {
					require.NotEqual(t, backend.Lost, f.s.State())
					return f.s.Deadline().After(after)
				})
			})
		}
	}
}

// TestVotesEndTheLink: something in between ends each link at the first vote. The session is
// lost in the end, and does not dial without a pause until then.
func TestVotesEndTheLink(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(10*time.Second))
	f.Proxies[0].DropRequest(zktest.MatchVote, 4096)
	wait.For(t, "the session is lost", func() bool { return f.s.State() == backend.Lost })
	t.Logf("%d links", f.Proxies[0].Accepted())
	assert.Less(t, f.Proxies[0].Accepted(), 50, "it floods the server with links")
}

// TestVotesWithoutRights: "/" may not be read, which no vote needs. Nor does a will that is executed
// again, whose server has a quorum agree.
func TestVotesWithoutRights(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	_, err := zktest.Operator(t, server.Addr()).SetACL("/", zk.DigestACL(zk.PermAll, "somebody", "else"), -1)
	require.NoError(t, err)
	var log logged
	p := zktest.NewProcess(t, []string{server.Addr()}, func(cfg *zookeeper.Config) {
		cfg.SessionTimeout, cfg.Logger = 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
	})
	var votes atomic.Int64
	p.Proxies[0].OnRequest(func(opcode int32, payload []byte) {
		if zktest.MatchVote(opcode, payload) {
			votes.Add(1)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	for range 2 {
		wait.For(t, "the deadline moves on", deadlineMoves(s))
	}
	assert.GreaterOrEqual(t, votes.Load(), int64(2))
	assert.False(t, log.has("heartbeat refused"))
	w, err := s.Will()
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, backend.Execute(ctx, p.Backend, w))
	}
}

// TestPatienceBesideDeposedServers: two of three servers follow a deposed leader: they take
// the session back, answer syncs, and no vote. The session finds the third in time.
func TestPatienceBesideDeposedServers(t *testing.T) {
	servertest.Long(t, "most of a session's time")
	t.Parallel()
	server := servertest.SharedZooKeeper(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	p := zktest.NewProcess(t, []string{server.Addr(), server.Addr(), server.Addr()}, nil)
	p.Only(0)
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	for _, deposed := range p.Proxies[1:] {
		deposed.Refuse(false)
		_, release := deposed.HoldReply(zktest.MatchVote)
		defer release()
	}
	wait.For(t, "a heartbeat", deadlineMoves(s))
	lost := p.Proxies[0].DropRequest(proxytest.MatchOp(proxytest.OpSync), 1)
	<-lost
	wait.For(t, "the deadline moves on", func() bool {
		require.NotEqual(t, backend.Lost, s.State(), "a server that is well was in the list")
		return p.Proxies[0].Accepted() > 1 && time.Until(s.Deadline()) > 2*s.TTL()/3
	})
}

// TestVotesAreShared: the sessions of a Backend need one vote for all of them, not one each. The
// server is of an ensemble: see TestVotesNeedEpochs.
func TestVotesAreShared(t *testing.T) {
	servertest.Long(t, "most of a session's time, and a machine that has all of them beat in time")
	t.Parallel()
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	f := setUpOn(t, e.Members[0], sessionTimeout(20*time.Second))
	all := []*backend.Session{f.s}
	for range 9 {
		s, err := f.Backend.Open(f.ctx, backend.OpenOptions{})
		require.NoError(t, err)
		defer s.Close(f.ctx)
		all = append(all, s)
	}
	var rounds, votes atomic.Int64
	defer f.Proxies[0].OnRequest(func(opcode int32, payload []byte) {
		switch {
		case opcode == proxytest.OpSync:
			rounds.Add(1)
		case zktest.MatchVote(opcode, payload):
			votes.Add(1)
		}
	})()
	for range 4 { // heartbeats each
		for _, moves := range each(all, deadlineMoves) {
			wait.For(t, "a heartbeat", moves)
		}
	}
	t.Logf("%d syncs, %d votes", rounds.Load(), votes.Load())
	assert.Positive(t, votes.Load())
	assert.Less(t, votes.Load(), rounds.Load()/4)
}

// deadlineMoves returns a condition that holds once the deadline has moved from now on.
func deadlineMoves(s *backend.Session) func() bool {
	old := s.Deadline()
	return func() bool { return s.Deadline().After(old) }
}

func each[T, R any](all []T, do func(T) R) []R {
	var results []R
	for _, v := range all {
		results = append(results, do(v))
	}
	return results
}
