package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A server that refuses the closing request has closed nothing.
func TestRefusedCloseIsNotConfirmed(t *testing.T) {
	f := setUp(t, nil)
	f.TurnAway(proxytest.MatchOp(proxytest.OpClose), throttled)
	require.ErrorContains(t, f.S.Close(f.Ctx), "did not confirm")
}

// triesForSeconds is why some tests of Close need make test-all.
const triesForSeconds = "a machine that does not stand still: Close tries for three seconds"

// A server that enforces credentials accepts no closing request on a new link before it has them.
func TestCloseOnANewLinkPresentsCredentials(t *testing.T) {
	servertest.Long(t, triesForSeconds)
	t.Parallel()
	f := setUpOn(t, enforcing(t), known)
	for range 5 {
		s := f.open()
		f.Suspend()
		f.AwaitState(s, backend.Suspended)
		closing := f.closes(s)
		must.Get(s.AwaitState(f.Ctx, backend.Suspended))(t)
		f.Resume()
		wait.Value(f.T, closing)
		assert.Equal(t, 1, f.sessions())
	}
}

// enforcing returns a server that enforces credentials; known has these.
func enforcing(t *testing.T) *servertest.ZooKeeper {
	t.Helper()
	return servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{
		"enforce.auth.enabled=true", "enforce.auth.schemes=digest",
	}})
}

func known(cfg *zookeeper.Config) { cfg.Auth = []zookeeper.Auth{zookeeper.Digest("u", "p")} }

// sessions returns how many sessions the test's own server has.
func (f *fixture) sessions() int {
	f.T.Helper()
	m := must.Get(f.server.Metrics())(f.T)
	return int(m["global_sessions"])
}

// A slow server loses the link, and the window is almost over. Close ends the window, so the next link
// may take as long as Close itself.
func TestCloseOverASlowLink(t *testing.T) {
	servertest.Long(t, triesForSeconds)
	t.Parallel()
	f := setUp(t, sessionTimeout(20*time.Second))
	f.Each((*proxytest.Proxy).Stall)
	f.AwaitState(f.S, backend.Suspended)
	time.Sleep(time.Until(f.S.Deadline()) - f.S.TTL()/4)
	f.Each(func(x *proxytest.Proxy) { x.DelayToClient(600 * time.Millisecond) })
	f.Each((*proxytest.Proxy).Cut)
	f.Each((*proxytest.Proxy).Unstall)
	require.NoError(t, f.S.Close(f.Ctx))
}

// A link to a frozen server is being made when Close is called. Another server works.
func TestCloseWhileAFrozenServerIsGreeted(t *testing.T) {
	servertest.Long(t, triesForSeconds)
	t.Parallel()
	server := servertest.SharedZooKeeper(t)
	f := setUpOn(t, server, nil, server.Addr())
	well, frozen := f.Proxies[0], f.Proxies[1]
	if len(well.Links()) == 0 {
		well, frozen = frozen, well
	}
	frozen.Stall()
	well.Cut()
	f.AwaitState(f.S, backend.Suspended)
	wait.For(t, "the frozen server is tried", func() bool { return len(frozen.Links()) > 0 || f.S.State() == backend.Live })
	require.NoError(t, f.S.Close(f.Ctx))
}

// The window of a session passes, and then there is a link again: with it the server has renewed the
// session for a full timeout. So the link closes the session.
func TestLostSessionIsClosedOnItsNextLink(t *testing.T) {
	servertest.Long(t, "a machine that does not stand still: the link has three seconds to come back")
	t.Parallel()
	f := setUp(t, sessionTimeout(4*time.Second))
	e := f.Enqueue(f.S)
	closing := f.counts(proxytest.MatchOp(proxytest.OpClose))
	f.Each((*proxytest.Proxy).Stall)
	f.AwaitState(f.S, backend.Lost)
	f.Each((*proxytest.Proxy).Unstall)
	wait.For(t, "it is closed", func() bool { return closing() > 0 })
	f.stands(f.admin(), e.Key, false)
}

// Close is called while a heartbeat is pending, which gives up a link that is late. But there is no other link
// after Close.
func TestCloseWhileAHeartbeatIsLate(t *testing.T) {
	servertest.Long(t, triesForSeconds)
	t.Parallel()
	f := setUp(t, sessionTimeout(4*time.Second))
	beat := f.counts(proxytest.MatchOp(proxytest.OpSync))
	f.Each((*proxytest.Proxy).StallToClient)
	wait.For(t, "a heartbeat", func() bool { return beat() > 0 })
	closing := f.closes(f.S)
	time.Sleep(f.S.TTL() * 3 / 8) // a heartbeat is late after a quarter
	f.Each((*proxytest.Proxy).Unstall)
	wait.Value(t, closing)
}

// Close is called on a new link while its first heartbeat waits until the server has the credentials. To give that
// link up would leave the closing request to the next one, which does not present them any more.
func TestCloseWhileCredentialsArePresented(t *testing.T) {
	servertest.Long(t, triesForSeconds)
	t.Parallel()
	f := process(t, []string{enforcing(t).Addr()}, func(cfg *zookeeper.Config) {
		known(cfg)
		cfg.SessionTimeout = 6 * time.Second
	})
	var all []*backend.Session
	for range 4 {
		all = append(all, f.open())
	}
	beats := f.counts(proxytest.MatchOp(proxytest.OpSync))
	f.Each(func(x *proxytest.Proxy) { x.DelayToClient(400 * time.Millisecond) })
	f.Cut()
	wait.For(t, "heartbeats", func() bool { return beats() >= int64(len(all)) })
	var closing []<-chan wait.Result[struct{}]
	for _, s := range all {
		closing = append(closing, f.closes(s))
	}
	for _, c := range closing {
		wait.Value(t, c)
	}
}
