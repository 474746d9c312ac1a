package etcd_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// clusterTTL leaves room for the servers' own election, which takes 1 to 2 s and more on a busy
// machine.
const clusterTTL = 10 * time.Second

// at returns a process that is connected to one member first, and may later use the others.
func at(t *testing.T, servers *etcdtest.Servers, member int, ttl time.Duration) *fixture {
	t.Helper()
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Only(member)
	return setUpWith(t, ttl, p)
}

// leaderOf waits until a member leads, and returns its index in the cluster.
func leaderOf(t *testing.T, servers *etcdtest.Servers) int {
	t.Helper()
	leader := must.Get(servers.WaitLeader(wait.Patience))(t)
	return slices.Index(servers.Members, leader)
}

// members applies do to some of a cluster's members.
func (f *fixture) members(some []*servertest.Etcd, do func(*servertest.Etcd) error) {
	f.T.Helper()
	for _, m := range some {
		require.NoError(f.T, do(m))
	}
}

// moveLeader makes the cluster's leader hand over to the next member.
func (f *fixture) moveLeader(servers *etcdtest.Servers) {
	f.T.Helper()
	leader := leaderOf(f.T, servers)
	next := servers.Members[(leader+1)%3]
	operator := etcdtest.Operator(f.T, servers.Members[leader].Addr())
	status := must.Get(operator.Status(f.Ctx, next.Addr()))(f.T)
	must.Get(operator.MoveLeader(f.Ctx, status.Header.MemberId))(f.T)
}

// Sessions live, waits wait, and writes continue while the cluster's leader hands over again and again,
// which drops proposals.
func TestLeaderChange(t *testing.T) {
	servers := etcdtest.Cluster(t)
	leaderOf(t, servers)
	var all []*fixture
	for i := range servers.Members {
		f := at(t, servers, i, clusterTTL)
		f.NeverLost()
		all = append(all, f)
	}
	writer := all[0].another(clusterTTL)
	writer.NeverLost()
	var waiting []<-chan wait.Result[[]backend.Entry]
	var entries []backend.Entry
	for _, f := range all {
		e := writer.put(writer.S, f.Dir+"/e", "")
		entries, waiting = append(entries, e), append(waiting, f.armed(e))
	}
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
				made, err := writer.S.Commit(writer.Ctx, nil, backend.Enqueue(writer.Dir, nil))
				if assert.NoError(t, err) {
					assert.NoError(t, writer.S.Discard(writer.Ctx, made[0]))
				}
			}
		})
	}
	for range 6 {
		writer.moveLeader(servers)
	}
	close(done)
	wg.Wait()
	leaderOf(t, servers)
	for i, f := range all {
		wait.Pending(f.T, waiting[i])
		writer.Commit(writer.S, backend.Delete(entries[i]))
		f.Told(waiting[i], backend.Entry{})
		f.AwaitState(f.S, backend.Live)
	}
}

// If one member is frozen, sessions are opened and closed with the others, and the outcome of each
// commit is known.
func TestAllCallsWithAPausedMember(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	follower := servers.Members[(leaderOf(t, servers)+1)%3]
	f := setUpOn(t, clusterTTL, nil, servers.Addrs()...)
	e := f.put(f.S, f.Dir+"/x", "")
	require.NoError(t, follower.Pause())
	defer func() { require.NoError(t, follower.Resume()) }()
	sessions := []*backend.Session{f.S}
	for range 5 {
		sessions = append(sessions, f.open(clusterTTL))
	}
	for i := range 6 {
		f.Commit(f.S, backend.CreateEphemeral(fmt.Sprint(f.Dir, "/", i), nil))
		f.Commit(f.S, backend.Delete(f.Enqueue(f.S)))
		f.Commit(f.S, backend.Update(e, []byte{byte(i)}))
	}
	for _, s := range sessions {
		assert.NoError(t, s.Close(f.Ctx))
	}
}

// If the cluster's leader freezes, with the link of a process that reaches no other member, the entries
// stay until the window has ended.
func TestLeaseOutlivesTheWindow(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Cluster(t)
	member := leaderOf(t, servers)
	leader := servers.Members[member]
	f := at(t, servers, member, clusterTTL)
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Proxies[member].Refuse(true)
	writer := setUpWith(t, clusterTTL, p)
	writer.NeverLost()
	e := f.Enqueue(f.S)
	require.NoError(t, leader.Pause())
	f.LostAtDeadline()
	_, err := writer.S.Get(f.Ctx, e.Key)
	require.NoError(t, err, "the servers let it expire before the window's end")
	// The old leader must not expire anything on its own, either.
	require.NoError(t, leader.Resume())
	must.Get(writer.S.Await(f.Ctx, e))(t)
}
