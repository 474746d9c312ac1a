package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/strategy/catalog"
)

// An operator who revokes the lease ends the session, and with it the term.
func TestLeaseRevokedByAnOperator(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	for _, item := range catalog.All() {
		strategy := item.Strategy
		t.Run(strategy.Name(), func(t *testing.T) {
			f.t = t
			e := f.elector(strategy, f.dir+"/"+strategy.Name(), "1")
			term, err := e.Campaign(f.ctx)
			require.NoError(t, err)
			s := term.Guard().Session
			deadline := s.Deadline()
			f.Expire()
			select {
			case <-term.Context().Done():
			case <-f.ctx.Done():
				t.Fatal("the term goes on")
			}
			assert.False(t, term.Valid())
			for state := s.State(); state != backend.Lost; {
				state, err = s.AwaitState(f.ctx, state)
				require.NoError(t, err)
			}
			assert.True(t, time.Now().Before(deadline), "it has ended with its window only")
		})
	}
	// A session without an entry that anybody waits for hears of it by its heartbeat.
	for state := f.s.State(); state != backend.Lost; {
		var err error
		state, err = f.s.AwaitState(f.ctx, state)
		require.NoError(t, err)
	}
	_, err := f.s.Get(f.ctx, f.dir)
	require.ErrorIs(t, err, backend.ErrSessionLost)
}

// elector makes a candidate of the process.
func (f *fixture) elector(strategy elector.Strategy, election, id string) elector.Elector {
	f.t.Helper()
	return newElector(f, f.Backend, strategy, election, id)
}

func newElector(f *fixture, b backend.Backend, strategy elector.Strategy, election, id string) elector.Elector {
	f.t.Helper()
	e, err := elector.New(elector.Config{Backend: b, Strategy: strategy, Election: election, ID: id, TTL: 30 * time.Second})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = e.Close(f.ctx) }) // a session that is lost has nothing to confirm
	return e
}

// A commit finds out that the lease is gone before the next heartbeat does.
func TestCommitAfterRevocation(t *testing.T) {
	f := setUp(t, 60*time.Second)
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
	f.Expire()
	for _, op := range []backend.Op{backend.CreateEphemeral(f.dir+"/other", nil), backend.Enqueue(f.dir, nil)} {
		_, err := f.s.Commit(f.ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrSessionLost)
		require.NotErrorIs(t, err, backend.ErrIndeterminate)
	}
	assert.Equal(t, backend.Lost, f.s.State())
	other := f.another(30 * time.Second)
	_, err := other.s.Get(f.ctx, seat.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
}

// Answers that take longer than the window do not extend it.
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
			f := setUp(t, 10*time.Second)
			e := f.enqueue(f.s)
			waiting := f.armed(e)
			f.Each(fault)
			before := f.s.Deadline()
			f.lostAtDeadline()
			_, err := receive(f, waiting)
			require.ErrorIs(t, err, backend.ErrSessionLost)
			// At most one heartbeat can have been answered since.
			assert.LessOrEqual(t, f.s.Deadline().Sub(before), f.s.TTL()/2)
			f.Each((*proxytest.Proxy).Unstall)
			f.Each(func(x *proxytest.Proxy) { x.Delay(0, 0) })
			f.Resume()
			assert.Equal(t, backend.Lost, f.s.State())
			_, err = f.s.Get(f.ctx, e.Key)
			require.ErrorIs(t, err, backend.ErrSessionLost)
		})
	}
}

// The server is killed and started again within the window.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Single(t)
	f := setUpOn(t, 30*time.Second, nil, servers.Addrs()...)
	other := f.another(30 * time.Second)
	for range 3 {
		e, own := f.enqueue(other.s), f.enqueue(f.s)
		waiting := f.armed(e, own)
		require.NoError(t, servers.Stop())
		reading := later(func() (backend.Entry, error) { return f.s.Get(f.ctx, own.Key) })
		writing := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)) })
		require.NoError(t, servers.Start())
		got, err := receive(f, reading)
		require.NoError(t, err)
		assert.True(t, got.Same(own))
		made, err := receive(f, writing)
		require.NoError(t, err)
		require.NoError(t, f.s.Discard(f.ctx, made[0]))
		f.state(backend.Live)
		still(f, waiting)
		require.NoError(t, other.s.Discard(f.ctx, e))
		both, err := receive(f, waiting)
		require.NoError(t, err)
		assert.False(t, both[0].Exists())
		assert.True(t, both[1].Same(own))
		require.NoError(t, f.s.Discard(f.ctx, own))
	}
}

// What the server grants is what the window is made of. Its minimum is 3/2 of its
// election timeout.
func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	slow := etcdtest.Single(t, "--heartbeat-interval=400", "--election-timeout=10000")
	for _, try := range []struct {
		server         string
		asked, granted time.Duration
	}{
		{sharedServer(t).Addr(), 19500 * time.Millisecond, 20 * time.Second}, // whole seconds
		{sharedServer(t).Addr(), 20 * time.Second, 20 * time.Second},
		{slow.Addrs()[0], 2 * time.Second, 15 * time.Second},
	} {
		f := setUpOn(t, 30*time.Second, nil, try.server)
		before := time.Now()
		s := f.open(try.asked)
		assert.Equal(t, try.granted, s.TTL(), "asked for %v", try.asked)
		assert.False(t, s.Deadline().After(time.Now().Add(try.granted)))
		assert.True(t, s.Deadline().After(before.Add(try.granted/2)))
		lease := f.Leases()[1]
		now, err := f.operator().TimeToLive(f.ctx, lease)
		require.NoError(t, err)
		assert.EqualValues(t, try.granted.Seconds(), now.GrantedTTL)
		require.NoError(t, s.Close(f.ctx))
		_, err = f.operator().KeepAliveOnce(f.ctx, lease)
		require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound, "a closed session's lease is revoked")
	}
	for _, refused := range []time.Duration{-1, time.Millisecond, 1000 * time.Hour} {
		_, err := etcdtest.NewProcess(t, slow.Addrs(), nil).Backend.Open(t.Context(), backend.OpenOptions{TTL: refused})
		require.ErrorContains(t, err, refused.String())
	}
}

// The key that an operator's plain put takes away from the lease is nobody's entry
// any more.
func TestEntryTakenFromItsLease(t *testing.T) {
	f := setUp(t, 30*time.Second)
	e := f.enqueue(f.s)
	waiting := f.armed(e)
	_, err := f.operator().Put(f.ctx, e.Key, "stolen")
	require.NoError(t, err)
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, got[0].Same(e))
	assert.NotEqual(t, f.s.ID(), got[0].Session)
	_, err = f.s.Commit(f.ctx, []backend.Condition{backend.IfUnchanged(e)}, backend.CompareAndSet(f.dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrCondition)
	// Nobody has to wait for it.
	next := f.enqueue(f.s)
	before, err := f.s.Predecessor(f.ctx, next)
	require.NoError(t, err)
	assert.False(t, before.Exists() && before.Session == "", "%+v would never go", before)
	_, err = f.operator().Delete(f.ctx, e.Key, clientv3.WithPrevKV())
	require.NoError(t, err)
}

// Close takes what answers as slowly as it has time.
func TestCloseOverASlowLink(t *testing.T) {
	servertest.Long(t, "a machine that does not stand still: Close tries for three seconds")
	t.Parallel()
	f := setUp(t, 20*time.Second)
	f.Each(func(x *proxytest.Proxy) { x.DelayToClient(1800 * time.Millisecond) })
	require.NoError(t, f.s.Close(f.ctx))
}
