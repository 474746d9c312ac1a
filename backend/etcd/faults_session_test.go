package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A session that waits for nothing learns from its next heartbeat that its lease was revoked.
func TestLeaseRevokedByAnOperator(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	deadline := f.S.Deadline()
	f.Expire()
	f.AwaitState(f.S, backend.Lost)
	assert.True(t, time.Now().Before(deadline), "it has ended with its window only")
}

// A commit finds out that the lease is gone before the next heartbeat does.
func TestCommitAfterRevocation(t *testing.T) {
	f := setUp(t, 60*time.Second)
	seat := f.seat(f.S)
	f.Expire()
	for _, op := range []backend.Op{backend.CreateEphemeral(f.Dir+"/other", nil), backend.Enqueue(f.Dir, nil)} {
		_, err := f.S.Commit(f.Ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrSessionLost)
		require.NotErrorIs(t, err, backend.ErrIndeterminate)
	}
	assert.Equal(t, backend.Lost, f.S.State())
	f.Gone(f.another(30*time.Second).S, seat.Key)
}

// Replies that take longer than the window do not extend it.
func TestHeartbeatAnswersComeTooLate(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*proxytest.Proxy){
		"a slow link":           func(x *proxytest.Proxy) { x.Delay(15*time.Second, 0) },
		"nothing gets there":    (*proxytest.Proxy).StallToServer,
		"nothing comes back":    (*proxytest.Proxy).StallToClient,
		"half-open in both":     (*proxytest.Proxy).Stall,
		"no link can be opened": func(x *proxytest.Proxy) { x.Refuse(true); x.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The client's own keepalive would wait for its first reply for as long.
			f := setUp(t, 10*time.Second, func(cfg *clientv3.Config) { cfg.DialTimeout = time.Hour })
			e := f.Enqueue(f.S)
			waiting := f.armed(e)
			fresh := f.open(10 * time.Second) // none of its heartbeats is answered
			f.Each(fault)
			cut := time.Now()
			f.LostAtDeadline()
			f.AwaitState(fresh, backend.Lost)
			_, err := wait.Returned(f.T, waiting)
			require.ErrorIs(t, err, backend.ErrSessionLost)
			assert.False(t, f.S.Deadline().After(cut.Add(f.S.TTL())), "no heartbeat that was sent since counts")
			f.Each((*proxytest.Proxy).Unstall)
			f.Each(func(x *proxytest.Proxy) { x.Delay(0, 0) })
			f.Resume()
			assert.Equal(t, backend.Lost, f.S.State())
			_, err = f.S.Get(f.Ctx, e.Key)
			require.ErrorIs(t, err, backend.ErrSessionLost)
		})
	}
}

// The window is made from the timeout that the server grants, at least 3/2 of its election timeout.
func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	slow := etcdtest.Single(t, "--heartbeat-interval=400", "--election-timeout=20000")
	for _, try := range []struct {
		server         string
		asked, granted time.Duration
	}{
		{shared.ForTest(t).Addr(), 59500 * time.Millisecond, time.Minute}, // whole seconds
		{shared.ForTest(t).Addr(), time.Minute, time.Minute},
		{slow.Addrs()[0], 2 * time.Second, 30 * time.Second},
	} {
		f := setUpOn(t, time.Minute, nil, try.server)
		before := time.Now()
		s := f.open(try.asked)
		assert.Equal(t, try.granted, s.TTL(), "asked for %v", try.asked)
		assert.False(t, s.Deadline().After(time.Now().Add(try.granted)))
		assert.True(t, s.Deadline().After(before.Add(try.granted/2)))
		lease := f.Leases()[1]
		now := must.Get(f.operator().TimeToLive(f.Ctx, lease))(t)
		assert.EqualValues(t, try.granted.Seconds(), now.GrantedTTL)
		require.NoError(t, s.Close(f.Ctx))
		_, err := f.operator().KeepAliveOnce(f.Ctx, lease)
		require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound, "a closed session's lease is revoked")
	}
	for _, refused := range []time.Duration{-1, time.Millisecond, 1000 * time.Hour} {
		_, err := etcdtest.NewProcess(t, slow.Addrs(), nil).Backend.Open(t.Context(), backend.OpenOptions{TTL: refused})
		require.ErrorContains(t, err, refused.String())
	}
}

// Faults that pass within the window are ridden out: calls and waits continue, with the same session.
func TestFaultsAreRiddenOut(t *testing.T) {
	t.Parallel()
	single := func(t testing.TB) *etcdtest.Servers { return etcdtest.Single(t) }
	for name, c := range map[string]struct {
		servers func(testing.TB) *etcdtest.Servers
		writes  bool // others can write meanwhile
		do, end func(*fixture, *etcdtest.Servers)
	}{
		"half-open links": {
			single, true,
			func(f *fixture, _ *etcdtest.Servers) { f.Each((*proxytest.Proxy).Stall) },
			func(f *fixture, _ *etcdtest.Servers) { f.Each((*proxytest.Proxy).Unstall) },
		},
		"pitfall 25: a member without a leader": {
			etcdtest.Cluster, false,
			func(f *fixture, s *etcdtest.Servers) { f.members(s.Members[1:], (*servertest.Etcd).Pause) },
			func(f *fixture, s *etcdtest.Servers) { f.members(s.Members[1:], (*servertest.Etcd).Resume) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := c.servers(t)
			f := at(t, servers, 0, 30*time.Second)
			f.NeverLost()
			other := f.another(time.Minute)
			e, own := f.Enqueue(other.S), f.Enqueue(f.S)
			waiting := f.armed(e, own)
			c.do(f, servers)
			f.AwaitState(f.S, backend.Suspended)
			require.True(t, time.Now().Before(f.S.Deadline()))
			reading, writing := f.Gets(f.S, own.Key), f.Commits(f.S, backend.Enqueue(f.Dir, nil))
			if c.writes {
				f.Discard(other.S, e)
			}
			wait.Pending(f.T, waiting)
			c.end(f, servers)
			f.Same(own, wait.Value(f.T, reading))
			made := wait.Value(f.T, writing)
			f.AwaitState(f.S, backend.Live)
			if !c.writes {
				wait.Pending(f.T, waiting)
				f.Discard(other.S, e)
			}
			f.Told(waiting, backend.Entry{}, own)
			f.Discard(f.S, own, made[0])
		})
	}
}

// Close succeeds over a link that is just fast enough.
func TestCloseOverASlowLink(t *testing.T) {
	servertest.Long(t, "a machine that does not stand still: Close tries for three seconds")
	t.Parallel()
	f := setUp(t, 20*time.Second)
	f.Each(func(x *proxytest.Proxy) { x.DelayToClient(1800 * time.Millisecond) })
	require.NoError(t, f.S.Close(f.Ctx))
}
