package zookeeper_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// TestLeaderWithoutAQuorum: a leader whose followers have left continues to lead for a while, replies
// to syncs and handshakes, and counts sessions. None of that may move the window.
func TestLeaderWithoutAQuorum(t *testing.T) {
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{"syncLimit=150"}})
	leader := must.Get(e.WaitLeader(wait.Patience))(t)
	f := process(t, []string{leader.Addr()}, sessionTimeout(10*time.Second))
	s := f.open()
	for _, follower := range e.Followers() {
		require.NoError(t, follower.Pause())
		defer func() { require.NoError(t, follower.Resume()) }()
	}
	paused := time.Now()
	latest := paused.Add(s.TTL())
	f.Cut()
	wait.For(t, "the session is lost", func() bool { return s.State() == backend.Lost })
	assert.False(t, s.Deadline().After(latest), "what was sent after the last vote has moved the window, to %v after the pause", s.Deadline().Sub(paused))
	mode := must.Get(leader.Mode())(t)
	assert.Equal(t, servertest.ModeLeader, mode, "it has noticed: this was no test")
	assert.Greater(t, f.Proxies[0].Accepted(), 1, "there was no second handshake")
}

// TestRefusedHeartbeats: a server that refuses a few requests does not end the session, for any reason
// it gives.
func TestRefusedHeartbeats(t *testing.T) {
	t.Parallel()
	const closing, moved = -116, -118 // these mean that the link is useless
	for _, code := range []int32{throttled, closing, moved} {
		for _, op := range []int32{proxytest.OpSync, proxytest.OpMulti} {
			t.Run(fmt.Sprintf("code %d, opcode %d", code, op), func(t *testing.T) {
				t.Parallel() // it mostly waits
				f := setUp(t, nil)
				<-f.RefuseReply(proxytest.MatchOp(op), code, 1)
				// A heartbeat that started after the refusal is confirmed.
				after := time.Now().Add(f.S.TTL() * 7 / 8)
				wait.For(t, "the deadline moves on", func() bool {
					require.NotEqual(t, backend.Lost, f.S.State())
					return f.S.Deadline().After(after)
				})
			})
		}
	}
}

// TestVotesEndTheLink: something between client and server ends each link at the first vote. The
// session is lost in the end, and pauses between dials until then.
func TestVotesEndTheLink(t *testing.T) {
	t.Parallel()
	f := setUp(t, sessionTimeout(10*time.Second))
	f.DropRequest(zktest.MatchVote, 4096)
	wait.For(t, "the session is lost", func() bool { return f.S.State() == backend.Lost })
	t.Logf("%d links", f.Proxies[0].Accepted())
	assert.Less(t, f.Proxies[0].Accepted(), 50, "it floods the server with links")
}

// TestVotesWithoutRights: a vote needs no right to read "/". Nor does the repeated execution of a will,
// which makes a quorum agree.
func TestVotesWithoutRights(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	var log logged
	f := process(t, []string{server.Addr()}, func(cfg *zookeeper.Config) {
		cfg.SessionTimeout, cfg.Logger = 30*time.Second, slog.New(slog.NewTextHandler(&log, nil))
	})
	must.Get(f.admin().SetACL("/", zk.DigestACL(zk.PermAll, "somebody", "else"), -1))(t)
	votes := f.counts(zktest.MatchVote)
	s := f.open()
	for range 2 {
		wait.For(t, "the deadline moves on", deadlineMoves(s))
	}
	assert.GreaterOrEqual(t, votes(), int64(2))
	assert.Zero(t, log.count("heartbeat refused"))
	w := must.Get(s.Will())(t)
	for range 2 {
		require.NoError(t, backend.Execute(f.Ctx, f.Backend, w))
	}
}

// TestPatienceBesideDeposedServers: two of three servers follow a deposed leader. They resume the
// session and reply to syncs, but not to votes. The session finds the third in time.
func TestPatienceBesideDeposedServers(t *testing.T) {
	servertest.Long(t, "most of a session's time")
	t.Parallel()
	addr := servertest.SharedZooKeeper(t).Addr()
	f := process(t, []string{addr, addr, addr}, nil)
	f.Only(0)
	s := f.open()
	for _, deposed := range f.Proxies[1:] {
		deposed.Refuse(false)
		_, release := deposed.HoldReply(zktest.MatchVote)
		defer release()
	}
	wait.For(t, "a heartbeat", deadlineMoves(s))
	<-f.Proxies[0].DropRequest(proxytest.MatchOp(proxytest.OpSync), 1)
	wait.For(t, "the deadline moves on", func() bool {
		require.NotEqual(t, backend.Lost, s.State(), "a server that is well was in the list")
		return f.Proxies[0].Accepted() > 1 && time.Until(s.Deadline()) > 2*s.TTL()/3
	})
}

// TestVotesAreShared: the sessions of a Backend need one vote for all of them, not one each. The server
// belongs to an ensemble: see TestVotesNeedEpochs.
func TestVotesAreShared(t *testing.T) {
	servertest.Long(t, "most of a session's time, and a machine that has all of them beat in time")
	t.Parallel()
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	f := setUpOn(t, e.Members[0], sessionTimeout(20*time.Second))
	all := []*backend.Session{f.S}
	for range 9 {
		all = append(all, f.open())
	}
	rounds, votes := f.counts(proxytest.MatchOp(proxytest.OpSync)), f.counts(zktest.MatchVote)
	for range 4 { // heartbeats each
		var beats []func() bool
		for _, s := range all {
			beats = append(beats, deadlineMoves(s))
		}
		for _, beat := range beats {
			wait.For(t, "a heartbeat", beat)
		}
	}
	t.Logf("%d syncs, %d votes", rounds(), votes())
	assert.Positive(t, votes())
	assert.Less(t, votes(), rounds()/4)
}

// deadlineMoves returns a condition that holds once the deadline has moved.
func deadlineMoves(s *backend.Session) func() bool {
	old := s.Deadline()
	return func() bool { return s.Deadline().After(old) }
}
