package consul_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

const check = 10 * time.Second

func setUpChecked(t *testing.T, servers ...*servertest.Consul) *fixture {
	t.Helper()
	return setUpOn(t, checked, servers...)
}

// checkOf returns the health check as the session's agent has it, nil if it has none.
func (f *fixture) checkOf(id string) *api.AgentCheck {
	f.T.Helper()
	checks := must.Get(f.operator().Agent().Checks())(f.T)
	return checks[id]
}

// checkID returns the ID of the session's health check.
func (f *fixture) checkID() string {
	f.T.Helper()
	session := must.First(f.operator().Session().Info(f.S.ID(), nil))(f.T)
	require.Len(f.T, session.ServiceChecks, 1)
	assert.Empty(f.T, session.NodeChecks, "a hiccup of the gossip ends it")
	return session.ServiceChecks[0].ID
}

// exists asks the servers whether the session lives. It tries until they answer.
func exists(t *testing.T, servers []*servertest.Consul, id string) bool {
	t.Helper()
	var there bool
	wait.For(t, "an answer", func() bool {
		for _, server := range servers {
			user := must.Get(consultest.Operator(server))(t)
			session, _, err := user.Session().Info(id, &api.QueryOptions{RequireConsistent: true})
			there = session != nil
			if err == nil {
				return true
			}
		}
		return false
	})
	return there
}

// If the agent of a checked session is restarted again and again, at any moment of the check's life,
// the session may end with it, but never before its window does.
func TestCheckOverAgentRestarts(t *testing.T) {
	servertest.Long(t, "six restarts, at moments that time.Sleep chooses")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	kept := 0
	for i := range 6 {
		f := setUpChecked(t, server)
		if i > 0 { // the first before there was any update
			f.renewed()
			time.Sleep(time.Duration(i) * check / 20)
		}
		require.NoError(t, server.Kill())
		require.NoError(t, server.Launch())
		for {
			there := exists(t, f.Servers, f.S.ID())
			if now := time.Now(); !there {
				require.False(t, now.Before(f.S.Deadline()), "it ended %v before its window", f.S.Deadline().Sub(now))
				break
			}
			if f.S.State() == backend.Lost || server.WaitReady(wait.Patience) == nil && f.S.State() == backend.Live {
				kept++
				break
			}
		}
		require.NoError(t, server.WaitReady(wait.Patience))
	}
	t.Logf("%d of 6 sessions outlived the restart", kept)
}

// Close leaves nothing at the agent.
func TestCheckIsRemoved(t *testing.T) {
	t.Parallel()
	f := setUpChecked(t, sharedServer(t))
	assert.Equal(t, check, f.S.TTL())
	id := f.checkID()
	assert.NotNil(t, f.checkOf(id))
	require.NoError(t, f.S.Close(f.Ctx))
	assert.Nil(t, f.checkOf(id))
}

// Nor does a session that was not opened.
func TestCheckOfASessionThatWasNotOpened(t *testing.T) {
	t.Parallel()
	f := processOn(t, checkAlone, sharedServer(t))
	var id string
	f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		switch {
		case r.For("agent/service/register"):
			var registered api.AgentServiceRegistration
			assert.NoError(t, json.Unmarshal(r.Content, &registered))
			id = registered.ID
		case r.For("session/create"):
			assert.NotNil(t, f.checkOf(id))
			return consultest.Answer(http.StatusInternalServerError, "Invalid Session TTL"), nil
		}
		return r.Send()
	})
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorContains(t, err, "Invalid Session TTL")
	assert.Nil(t, f.checkOf(id))
}

// A checked session lives while the servers elect a leader and nobody can renew it, which takes longer
// than a check's TTL, and much less than the session's.
func TestCheckOverAServerElection(t *testing.T) {
	servertest.Long(t, "a minute: a check has to be much shorter than the session's own timeout")
	t.Parallel()
	const timeout = 4 * check
	for name, end := range map[string]consultest.Handler{
		"refused": answer(http.StatusInternalServerError, "No cluster leader"),
		"held":    hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUpOn(t, consultest.Options{Config: consul.Config{Check: check, SessionTimeout: timeout}}, sharedServer(t))
			remove := f.handle(renews, end)
			f.AwaitState(f.S, backend.Suspended)
			for end := f.S.Deadline(); time.Now().Before(end); {
				require.NotEqual(t, backend.Lost, f.S.State(), "the check was passed all the time")
				time.Sleep(10 * time.Millisecond)
			}
			remove()
			f.AwaitState(f.S, backend.Live)

			// But not for longer than the session's own TTL.
			f.handle(renews, end)
			began := time.Now()
			f.LostAtDeadline()
			assert.True(t, f.S.Deadline().Before(began.Add(timeout)))
		})
	}
}

// Close removes the check also if the servers cannot be asked to end the session.
func TestCheckIsRemovedWithoutServers(t *testing.T) {
	servertest.Long(t, "a server and an agent")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	agent := servertest.ConsulAgentForTest(t, []*servertest.Consul{server}, servertest.ConsulConfig{NoSync: true})
	f := setUpChecked(t, agent)
	f.Enqueue(f.S)
	require.NoError(t, server.Kill())
	require.Error(t, f.S.Close(f.Ctx), "nobody has confirmed it")
	checks := must.Get(f.operator().Agent().Checks())(t)
	assert.Empty(t, checks)
	began := time.Now()
	require.NoError(t, server.Start())
	wait.For(t, "the session's end", func() bool { return !exists(t, []*servertest.Consul{server}, f.S.ID()) })
	t.Logf("the session went %v after the servers came back", time.Since(began))
}

// A session lives if its agent, during a reload, says that it does not know its checks.
func TestCheckOverAgentReload(t *testing.T) {
	t.Parallel()
	f := setUpChecked(t, sharedServer(t))
	e := f.Enqueue(f.S)
	asked, _ := f.first(1, under("agent/check/update"), answer(http.StatusNotFound, "Unknown check ID"))
	f.hasten(f.S)
	wait.For(t, "the answer", func() bool { return asked.Load() > 0 })
	f.renewed()
	f.Stands(f.S, e)
}

// steady makes servers keep their leader on a busy machine, as by default.
var steady = servertest.ConsulConfig{NoSync: true, Config: `performance { raft_multiplier = 5 }`}

// checkAlone are the options of a process whose sessions have a health check, and which nothing else
// ends while a test lasts.
var checkAlone = consultest.Options{Config: consul.Config{Check: check, SessionTimeout: time.Hour}}

// checked are those of a process whose sessions time out soon after their checks.
var checked = consultest.Options{Config: consul.Config{Check: check, SessionTimeout: ttl}}

// With three candidates with health checks, through client agents beside three servers, if the leader's
// link breaks, or its agent does, the next in line leads, only then, and alone.
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
		// A dead agent's checks are not reported to the servers: its sessions go by their TTL.
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
				candidates = append(candidates, f.Stand(elector.Config{Backend: f.Backend, Election: election}))
			}
			observer := processes[2]
			first := processes[0].Campaign(candidates[0])
			second := processes[1].Campaigns(candidates[1])
			observer.Queue(candidates[2], 2)
			third := processes[2].Campaigns(candidates[2])
			observer.Queue(candidates[2], 3)

			began := time.Now()
			require.NoError(t, fault.begin(processes[0], near))
			won := wait.Value(processes[1].T, second)
			require.Error(t, first.Context().Err(), "two lead")
			require.False(t, first.Valid(), "two lead")
			t.Logf("failover took %v", time.Since(began))
			assert.Greater(t, won.Token(), first.Token())
			processes[0].Ends(first, elector.ErrSessionLost)

			// It comes back, at the end of the queue.
			require.NoError(t, fault.end(processes[0], near))
			last := processes[0].Campaigns(candidates[0])
			observer.Queue(candidates[2], 3)
			require.True(t, won.Valid())
			require.NoError(t, won.Resign(processes[1].Ctx))
			won = wait.Value(processes[2].T, third)
			require.NoError(t, won.Resign(processes[2].Ctx))
			wait.Value(processes[0].T, last)
		})
	}
}

// A leader that is killed is succeeded when its check ends its session, and its instance is no longer
// among the catalog's healthy ones.
func TestCheckedLeaderIsKilled(t *testing.T) {
	t.Parallel()
	cluster := servertest.ConsulClusterForTest(t, 3, steady)
	agent := servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
	election := newRoot()
	f := processOn(t, checkAlone, agent)
	for range 3 {
		token, kill := f.startCandidate(agent.Addr(), election)
		e := f.Stand(elector.Config{Backend: f.Backend, Election: election})
		winning := f.Campaigns(e)
		f.Queue(e, 2)
		began := time.Now()
		kill()
		term, err := wait.Returned(f.T, winning)
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
		require.NoError(t, e.Close(f.Ctx))
	}
}

// The environment that makes the tests' binary a candidate.
const (
	candidateAgent    = "ELECTOR_TEST_AGENT"
	candidateElection = "ELECTOR_TEST_ELECTION"
)

// startCandidate starts a process that leads, with this token, until it is killed.
func (f *fixture) startCandidate(agent, election string) (token uint64, kill func()) {
	f.T.Helper()
	cmd := exec.CommandContext(f.Ctx, os.Args[0])
	cmd.Env = append(os.Environ(), candidateAgent+"="+agent, candidateElection+"="+election)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(f.T)
	require.NoError(f.T, cmd.Start())
	kill = sync.OnceFunc(func() {
		assert.NoError(f.T, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	f.T.Cleanup(kill)
	must.Get(fmt.Fscanf(out, "leads %d\n", &token))(f.T)
	return token, kill
}

// beCandidate is the main function of such a process.
func beCandidate() error {
	cfg := api.DefaultConfig()
	cfg.Address = os.Getenv(candidateAgent)
	client, err := api.NewClient(cfg)
	if err != nil {
		return err
	}
	b, err := consul.New(client, checkAlone.Config)
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: os.Getenv(candidateElection), ID: "child"})
	if err != nil {
		return err
	}
	return elector.Run(context.Background(), e, func(ctx context.Context, term *elector.Term) error {
		fmt.Println("leads", term.Token())
		<-ctx.Done()
		return context.Cause(ctx)
	})
}
