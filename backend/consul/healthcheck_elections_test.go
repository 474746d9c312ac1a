package consul_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// steady has servers keep their leader on a busy machine, as by default.
var steady = servertest.ConsulConfig{NoSync: true, Config: `performance { raft_multiplier = 5 }`}

// checkAlone are the options of a process whose sessions have a health check, and which nothing else
// ends while a test lasts.
var checkAlone = consultest.Options{Config: consul.Config{Check: check, SessionTimeout: time.Hour}}

// checked are those of a process whose sessions time out soon after their checks.
var checked = consultest.Options{Config: consul.Config{Check: check, SessionTimeout: ttl}}

// Three candidates with health checks, through client agents beside three servers. The
// leader's link breaks, or its agent does: the next in line leads, only then, and alone.
func TestCheckedElections(t *testing.T) {
	t.Parallel()
	cluster := servertest.ConsulClusterForTest(t, 3, steady)
	for name, fault := range map[string]struct {
		begin, end func(*fixture, *servertest.Consul) error
		options    consultest.Options
	}{
		"link cut": {
			begin:   func(f *fixture, _ *servertest.Consul) error { f.Suspend(); return nil },
			end:     func(f *fixture, _ *servertest.Consul) error { f.Resume(); return nil },
			options: checkAlone,
		},
		"link stalled": {
			begin:   func(f *fixture, _ *servertest.Consul) error { f.Each((*proxytest.Proxy).Stall); return nil },
			end:     func(f *fixture, _ *servertest.Consul) error { f.Cut(); f.Each((*proxytest.Proxy).Unstall); return nil },
			options: checkAlone,
		},
		// Nobody tells the servers of a dead agent's checks: its sessions go by their TTL.
		"agent killed": {
			begin:   func(_ *fixture, agent *servertest.Consul) error { return agent.Kill() },
			end:     func(_ *fixture, agent *servertest.Consul) error { return agent.Start() },
			options: checked,
		},
		"agent paused": {
			begin:   func(_ *fixture, agent *servertest.Consul) error { return agent.Pause() },
			end:     func(_ *fixture, agent *servertest.Consul) error { return agent.Resume() },
			options: checked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near := servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
			far := servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
			election := newRoot()
			var candidates []elector.Elector
			var processes []*fixture
			for _, agent := range []*servertest.Consul{near, far, far} {
				f := processOn(t, fault.options, agent)
				processes = append(processes, f)
				candidates = append(candidates, f.stand(f.Backend, fair.New(), election))
			}
			observer := processes[2]
			first := processes[0].campaign(candidates[0])
			second := processes[1].campaigning(candidates[1])
			observer.queue(candidates[2], 2)
			third := processes[2].campaigning(candidates[2])
			observer.queue(candidates[2], 3)

			began := time.Now()
			require.NoError(t, fault.begin(processes[0], near))
			won, err := receive(processes[1], second)
			require.NoError(t, err)
			require.Error(t, first.Context().Err(), "two lead")
			require.False(t, first.Valid(), "two lead")
			t.Logf("failover took %v", time.Since(began))
			assert.Greater(t, won.Token(), first.Token())
			processes[0].ends(first, elector.ErrSessionLost)

			// It comes back, at the end of the queue.
			require.NoError(t, fault.end(processes[0], near))
			last := processes[0].campaigning(candidates[0])
			observer.queue(candidates[2], 3)
			require.True(t, won.Valid())
			require.NoError(t, won.Resign(processes[1].ctx))
			won, err = receive(processes[2], third)
			require.NoError(t, err)
			require.NoError(t, won.Resign(processes[2].ctx))
			_, err = receive(processes[0], last)
			require.NoError(t, err)
		})
	}
}

// A leader that is killed is followed as its check ends its session, and its instance is out of the
// catalog's healthy ones.
func TestCheckedLeaderIsKilled(t *testing.T) {
	t.Parallel()
	cluster := servertest.ConsulClusterForTest(t, 3, steady)
	agent := servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
	election := newRoot()
	f := processOn(t, checkAlone, agent)
	for range 3 {
		token, kill := f.startCandidate(agent.Addr(), election)
		e := f.stand(f.Backend, fair.New(), election)
		winning := f.campaigning(e)
		f.queue(e, 2)
		began := time.Now()
		kill()
		term, err := receive(f, winning)
		require.NoError(t, err)
		t.Logf("failover after a SIGKILL took %v with a check of %v", time.Since(began), check)
		assert.Greater(t, term.Token(), token)
		var instances []*api.ServiceEntry
		user := f.operator()
		wait.For(t, "an answer", func() bool {
			instances, _, err = user.Health().Service("elector", "", true, &api.QueryOptions{RequireConsistent: true})
			return err == nil
		})
		assert.Len(t, instances, 1, "the new leader's alone is healthy")
		require.NoError(t, e.Close(f.ctx))
	}
}
