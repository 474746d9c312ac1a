package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/wait"
)

// A member freezes that has the watches of all sessions of a client, while heartbeats go to
// the others. A change is noticed within two session timeouts all the same.
func TestFrozenMember(t *testing.T) {
	const timeout, sessions = 8 * time.Second, 6
	servers := etcdtest.Cluster(t)
	leader, err := servers.WaitLeader(wait.Patience)
	require.NoError(t, err)
	member := (index(servers, leader) + 1) % 3
	// As most users make it: no keepalive is set. The stream of watches, which all
	// sessions of the client share, goes to this member, for whatever reason.
	p := etcdtest.NewProcess(t, servers.Addrs(), nil)
	p.Only(member)
	o := setUpWith(t, timeout, etcdtest.NewProcess(t, []string{leader.Addr()}, nil))
	var waiting []<-chan result[[]backend.Entry]
	var entries []backend.Entry
	var states []func() []backend.State
	for i := range sessions {
		f := setUpWith(t, timeout, p)
		e := o.commit(o.s, backend.CompareAndSet(newRoot(), nil, 0))[0]
		entries = append(entries, e)
		waiting = append(waiting, f.armed(e))
		states = append(states, f.recordStates())
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
		require.NoError(t, r.err)
		late := time.Since(began)
		t.Logf("session %d: %v after the change, %v", i, late, states[i]())
		assert.Less(t, late, 2*timeout, "session %d", i)
	}
}

// recordStates notes the states that the session goes through until stop is called.
func (f *fixture) recordStates() (stop func() []backend.State) {
	ctx, cancel := context.WithCancel(f.ctx)
	states := []backend.State{f.s.State()}
	var recording sync.WaitGroup
	recording.Go(func() {
		for states[len(states)-1] != backend.Lost {
			state, err := f.s.AwaitState(ctx, states[len(states)-1])
			if err != nil {
				return
			}
			states = append(states, state)
		}
	})
	return func() []backend.State { cancel(); recording.Wait(); return states }
}
