package etcd_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// clusterTTL leaves room for the servers' own election, which takes 1 to 2 s and
// more on a busy machine.
const clusterTTL = 10 * time.Second

// neverLost checks at the end of the test that the session was lost at no time.
func (f *fixture) neverLost() {
	f.t.Helper()
	t, s := f.t, f.s
	t.Cleanup(func() { assert.NotEqual(t, backend.Lost, s.State(), "the session was lost") })
}

// at is a process that is connected to one member first, and may go on with others
// from then on.
func at(t *testing.T, servers *etcdtest.Servers, member int) *fixture {
	t.Helper()
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Only(member)
	return setUpWith(t, clusterTTL, p)
}

func (f *fixture) writer() *fixture { return f.another(clusterTTL) }

// index is the member's place in the cluster.
func index(servers *etcdtest.Servers, m *servertest.Etcd) int {
	for i, other := range servers.Members {
		if other == m {
			return i
		}
	}
	return -1
}

// The cluster's leader hands over, or is killed, while sessions live and waits wait.
func TestLeaderChange(t *testing.T) {
	servers := etcdtest.Cluster(t)
	var all []*fixture
	for i := range servers.Members {
		f := at(t, servers, i)
		f.neverLost()
		all = append(all, f)
	}
	writer := all[0].writer()
	writer.neverLost()
	change := func(do func(leader *servertest.Etcd)) {
		leader, err := servers.WaitLeader(wait.Patience)
		require.NoError(t, err)
		var waiting []<-chan result[[]backend.Entry]
		var entries []backend.Entry
		for _, f := range all {
			e := writer.commit(writer.s, backend.CompareAndSet(f.dir+"/under "+leader.Addr(), nil, 0))[0]
			entries = append(entries, e)
			waiting = append(waiting, f.armed(e))
		}
		do(leader)
		_, err = servers.WaitLeader(wait.Patience)
		require.NoError(t, err)
		for i, f := range all {
			still(f, waiting[i])
			writer.commit(writer.s, backend.Delete(entries[i]))
			got, err := receive(f, waiting[i])
			require.NoError(t, err)
			assert.False(t, got[0].Exists())
			f.state(backend.Live)
		}
	}
	change(func(leader *servertest.Etcd) {
		next := servers.Members[(index(servers, leader)+1)%3]
		operator := etcdtest.Operator(t, leader.Addr())
		status, err := operator.Status(writer.ctx, next.Addr())
		require.NoError(t, err)
		_, err = operator.MoveLeader(writer.ctx, status.Header.MemberId)
		require.NoError(t, err)
	})
	// From now on they may go on with the others.
	for _, f := range all {
		f.Resume()
	}
	change(func(leader *servertest.Etcd) { require.NoError(t, leader.Kill()) })
	require.NoError(t, servers.Start())
}

// Two of three members are frozen, and the third has no leader: the session is
// suspended, and what is called waits. They are back within the window.
func TestPitfall25NoLeaderForAWhile(t *testing.T) {
	servers := etcdtest.Cluster(t)
	f := at(t, servers, 0)
	f.neverLost()
	own := f.enqueue(f.s)
	waiting := f.armed(own)
	for _, m := range servers.Members[1:] {
		require.NoError(t, m.Pause())
	}
	f.state(backend.Suspended)
	require.True(t, time.Now().Before(f.s.Deadline()))
	reading := later(func() (backend.Entry, error) { return f.s.Get(f.ctx, own.Key) })
	writing := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Update(own, []byte("new"))) })
	for _, m := range servers.Members[1:] {
		require.NoError(t, m.Resume())
	}
	_, err := receive(f, reading)
	require.NoError(t, err)
	made, err := receive(f, writing)
	require.NoError(t, err)
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.True(t, got[0].Same(made[0]), "%+v, want %+v", got, made)
	f.state(backend.Live)
}

// The quorum stays away: the session is lost at the end of the window, neither
// sooner nor later.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	f := setUpOn(t, 10*time.Second, nil, servers.Addrs()...)
	own := f.enqueue(f.s)
	waiting := f.armed(own)
	for _, m := range servers.Members[1:] {
		require.NoError(t, m.Kill())
	}
	f.state(backend.Suspended)
	reading := later(func() (backend.Entry, error) { return f.s.Get(f.ctx, own.Key) })
	writing := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)) })
	f.lostAtDeadline()
	_, err := receive(f, reading)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	_, err = receive(f, writing)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	_, err = receive(f, waiting)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	// Another cannot be had, and that is said.
	_, err = f.Backend.Open(f.ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.NoError(t, servers.Start())
	next := f.open(clusterTTL)
	assert.NotEqual(t, f.s.ID(), next.ID())
	wait.For(t, "the lost session's entries are gone", func() bool {
		l, err := next.List(f.ctx, f.dir)
		require.NoError(t, err)
		return len(l.Keys) == 0
	})
}

// Writes go on while the leader of the cluster hands over, and drops proposals.
func TestWritesWhileLeadershipMoves(t *testing.T) {
	servers := etcdtest.Cluster(t)
	_, err := servers.WaitLeader(wait.Patience)
	require.NoError(t, err)
	f := setUpWith(t, clusterTTL, etcdtest.NewProcess(t, servers.Addrs(), nil))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
				if assert.NoError(t, err) {
					assert.NoError(t, f.s.Discard(f.ctx, made[0]))
				}
			}
		})
	}
	for range 6 {
		leader, err := servers.WaitLeader(wait.Patience)
		require.NoError(t, err)
		next := servers.Members[(index(servers, leader)+1)%3]
		operator := etcdtest.Operator(t, leader.Addr())
		status, err := operator.Status(f.ctx, next.Addr())
		require.NoError(t, err)
		_, err = operator.MoveLeader(f.ctx, status.Header.MemberId)
		require.NoError(t, err)
	}
	close(done)
	wg.Wait()
}

// The member that a process is connected to freezes: its connections stay open, and
// nothing is answered. The process goes on with the others.
func TestPausedMember(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	for offset, name := range []string{"leader", "follower"} {
		t.Run(name, func(t *testing.T) {
			leader, err := servers.WaitLeader(wait.Patience)
			require.NoError(t, err)
			member := (index(servers, leader) + offset) % 3
			f := at(t, servers, member)
			f.neverLost()
			p := etcdtest.NewProcess(t, servers.Addrs(), nil)
			p.Proxies[member].Refuse(true)
			writer := setUpWith(t, clusterTTL, p)
			e, own := f.commit(writer.s, backend.Enqueue(f.dir, nil))[0], f.enqueue(f.s)
			waiting := f.armed(e, own)
			f.Resume() // the others can be reached, too
			require.NoError(t, servers.Members[member].Pause())
			defer func() { require.NoError(t, servers.Members[member].Resume()) }()
			paused := time.Now()
			require.NoError(t, writer.s.Discard(f.ctx, e))
			got, err := receive(f, waiting)
			require.NoError(t, err)
			assert.Less(t, time.Since(paused), 3*clusterTTL)
			assert.False(t, got[0].Exists())
			assert.True(t, got[1].Same(own))
			for range 6 { // whichever member each is sent to
				_, err = f.s.Get(f.ctx, own.Key)
				require.NoError(t, err)
				f.commit(f.s, backend.Update(own, []byte("new")))
			}
			f.state(backend.Live)
		})
	}
}

// A request may go to a member that is frozen. All is done with the others: sessions are opened
// and closed, and of each commit it is known what became of it.
func TestAllCallsWithAPausedMember(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	leader, err := servers.WaitLeader(wait.Patience)
	require.NoError(t, err)
	f := setUpWith(t, clusterTTL, etcdtest.NewProcess(t, servers.Addrs(), nil))
	e := f.commit(f.s, backend.CompareAndSet(f.dir+"/x", nil, 0))[0]
	follower := servers.Members[(index(servers, leader)+1)%3]
	require.NoError(t, follower.Pause())
	defer func() { require.NoError(t, follower.Resume()) }()
	sessions := []*backend.Session{f.s}
	for range 5 {
		sessions = append(sessions, f.open(clusterTTL))
	}
	for i := range 6 {
		f.commit(f.s, backend.CreateEphemeral(fmt.Sprint(f.dir, "/", i), nil))
		f.commit(f.s, backend.Delete(f.enqueue(f.s)))
		f.commit(f.s, backend.Update(e, []byte{byte(i)}))
	}
	for _, s := range sessions {
		assert.NoError(t, s.Close(f.ctx))
	}
}

// The cluster's leader freezes, with it the link of a process that reaches no other
// member. Whatever the members know of the last heartbeat, the entries stay until
// the window has ended.
func TestLeaseOutlivesTheWindow(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	leader, err := servers.WaitLeader(wait.Patience)
	require.NoError(t, err)
	member := index(servers, leader)
	f := at(t, servers, member)
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Proxies[member].Refuse(true)
	writer := setUpWith(t, clusterTTL, p)
	writer.neverLost()
	e := f.enqueue(f.s)
	require.NoError(t, leader.Pause())
	f.lostAtDeadline()
	_, err = writer.s.Get(f.ctx, e.Key)
	require.NoError(t, err, "the servers let it expire before the window's end")
	// The old leader must not let anything expire on its own, either.
	require.NoError(t, leader.Resume())
	_, err = writer.s.Await(f.ctx, e)
	require.NoError(t, err)
}

// All links go half-open for a while, shorter than the window.
func TestStalledLinks(t *testing.T) {
	t.Parallel()
	f := setUp(t, 20*time.Second)
	f.neverLost()
	other := f.another(30 * time.Second)
	e := f.enqueue(other.s)
	waiting := f.armed(e)
	f.Each((*proxytest.Proxy).Stall)
	require.NoError(t, other.s.Discard(f.ctx, e))
	f.state(backend.Suspended)
	still(f, waiting)
	f.Each((*proxytest.Proxy).Unstall)
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, got[0].Exists())
	f.state(backend.Live)
}
