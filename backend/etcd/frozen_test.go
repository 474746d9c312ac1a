package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/wait"
)

// If a member freezes that has the watches of all sessions of a client, while heartbeats go to the
// others, a change is still noticed within two session timeouts.
func TestFrozenMember(t *testing.T) {
	const timeout, sessions = 8 * time.Second, 6
	servers := etcdtest.Cluster(t)
	leader := leaderOf(t, servers)
	member := (leader + 1) % 3
	// As most users make it: no keepalive is set. The stream of watches, which all sessions of the
	// client share, goes to this member.
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Only(member)
	o := setUpOn(t, timeout, nil, servers.Members[leader].Addr())
	var waiting []<-chan wait.Result[[]backend.Entry]
	var entries []backend.Entry
	var all []*backend.Session
	for i := range sessions {
		f := setUpWith(t, timeout, p)
		e := o.put(o.s, newRoot(), "")
		entries = append(entries, e)
		waiting = append(waiting, f.armed(e))
		all = append(all, f.s)
		if i == 0 {
			p.Resume()
			for _, proxy := range p.Proxies {
				require.Eventually(t, func() bool { return len(proxy.Links()) > 0 }, wait.Patience, 10*time.Millisecond)
			}
		}
	}
	require.NoError(t, servers.Members[member].Pause())
	defer func() { require.NoError(t, servers.Members[member].Resume()) }()
	began := time.Now()
	for _, e := range entries {
		o.commit(o.s, backend.Delete(e))
	}
	for i, heard := range waiting {
		r := <-heard // by the end of the test's context at the latest
		require.NoError(t, r.Err)
		late := time.Since(began)
		t.Logf("session %d: %v after the change, %v", i, late, all[i].State())
		assert.Less(t, late, 2*timeout, "session %d", i)
	}
}
