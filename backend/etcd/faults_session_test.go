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
	deadline := f.s.Deadline()
	f.Expire()
	f.state(backend.Lost)
	assert.True(t, time.Now().Before(deadline), "it has ended with its window only")
}

// A commit finds out that the lease is gone before the next heartbeat does.
func TestCommitAfterRevocation(t *testing.T) {
	f := setUp(t, 60*time.Second)
	seat := f.seat(f.s)
	f.Expire()
	for _, op := range []backend.Op{backend.CreateEphemeral(f.dir+"/other", nil), backend.Enqueue(f.dir, nil)} {
		_, err := f.s.Commit(f.ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrSessionLost)
		require.NotErrorIs(t, err, backend.ErrIndeterminate)
	}
	assert.Equal(t, backend.Lost, f.s.State())
	f.gone(f.another(30*time.Second).s, seat.Key)
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
			e := f.enqueue(f.s)
			waiting := f.armed(e)
			fresh := f.open(10 * time.Second) // none of its heartbeats is answered
			f.Each(fault)
			cut := time.Now()
			f.lostAtDeadline()
			f.stateOf(fresh, backend.Lost)
			_, err := wait.Returned(f.t, waiting)
			require.ErrorIs(t, err, backend.ErrSessionLost)
			assert.False(t, f.s.Deadline().After(cut.Add(f.s.TTL())), "no heartbeat that was sent since counts")
			f.Each((*proxytest.Proxy).Unstall)
			f.Each(func(x *proxytest.Proxy) { x.Delay(0, 0) })
			f.Resume()
			assert.Equal(t, backend.Lost, f.s.State())
			_, err = f.s.Get(f.ctx, e.Key)
			require.ErrorIs(t, err, backend.ErrSessionLost)
		})
	}
}

// The window is made from the timeout that the server grants, at least 3/2 of its election timeout.
func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	slow := etcdtest.Single(t, "--heartbeat-interval=400", "--election-timeout=10000")
	for _, try := range []struct {
		server         string
		asked, granted time.Duration
	}{
		{shared.ForTest(t).Addr(), 19500 * time.Millisecond, 20 * time.Second}, // whole seconds
		{shared.ForTest(t).Addr(), 20 * time.Second, 20 * time.Second},
		{slow.Addrs()[0], 2 * time.Second, 15 * time.Second},
	} {
		f := setUpOn(t, 30*time.Second, nil, try.server)
		before := time.Now()
		s := f.open(try.asked)
		assert.Equal(t, try.granted, s.TTL(), "asked for %v", try.asked)
		assert.False(t, s.Deadline().After(time.Now().Add(try.granted)))
		assert.True(t, s.Deadline().After(before.Add(try.granted/2)))
		lease := f.Leases()[1]
		now := must.Get(f.operator().TimeToLive(f.ctx, lease))(t)
		assert.EqualValues(t, try.granted.Seconds(), now.GrantedTTL)
		require.NoError(t, s.Close(f.ctx))
		_, err := f.operator().KeepAliveOnce(f.ctx, lease)
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
		rounds  int
		writes  bool // others can write meanwhile
		do, end func(*fixture, *etcdtest.Servers)
	}{
		"the server is killed": {
			single, 3, false,
			func(f *fixture, s *etcdtest.Servers) { require.NoError(f.t, s.Stop()) },
			func(f *fixture, s *etcdtest.Servers) { require.NoError(f.t, s.Start()) },
		},
		"half-open links": {
			single, 1, true,
			func(f *fixture, _ *etcdtest.Servers) { f.Each((*proxytest.Proxy).Stall) },
			func(f *fixture, _ *etcdtest.Servers) { f.Each((*proxytest.Proxy).Unstall) },
		},
		"pitfall 25: a member without a leader": {
			etcdtest.Cluster, 1, false,
			func(f *fixture, s *etcdtest.Servers) { f.members(s.Members[1:], (*servertest.Etcd).Pause) },
			func(f *fixture, s *etcdtest.Servers) { f.members(s.Members[1:], (*servertest.Etcd).Resume) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := c.servers(t)
			f := at(t, servers, 0, 30*time.Second)
			f.neverLost()
			other := f.another(time.Minute)
			for range c.rounds {
				e, own := f.enqueue(other.s), f.enqueue(f.s)
				waiting := f.armed(e, own)
				c.do(f, servers)
				f.state(backend.Suspended)
				require.True(t, time.Now().Before(f.s.Deadline()))
				reading, writing := f.gets(f.s, own.Key), f.commits(f.s, backend.Enqueue(f.dir, nil))
				if c.writes {
					f.discard(other.s, e)
				}
				still(f, waiting)
				c.end(f, servers)
				same(f, own, returned(f, reading))
				made := returned(f, writing)
				f.state(backend.Live)
				if !c.writes {
					still(f, waiting)
					f.discard(other.s, e)
				}
				seesGone(f, waiting, own)
				f.discard(f.s, own, made[0])
			}
		})
	}
}

// Close succeeds over a link that is just fast enough.
func TestCloseOverASlowLink(t *testing.T) {
	servertest.Long(t, "a machine that does not stand still: Close tries for three seconds")
	t.Parallel()
	f := setUp(t, 20*time.Second)
	f.Each(func(x *proxytest.Proxy) { x.DelayToClient(1800 * time.Millisecond) })
	require.NoError(t, f.s.Close(f.ctx))
}
