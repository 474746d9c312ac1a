package consul_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

const check = 10 * time.Second

func setUpChecked(t *testing.T, servers ...*servertest.Consul) *fixture {
	t.Helper()
	return setUpOn(t, checked, servers...)
}

// checkOf returns the health check of the session as its agent has it, nil if it has none.
func (f *fixture) checkOf(id string) *api.AgentCheck {
	f.t.Helper()
	checks, err := f.operator().Agent().Checks()
	require.NoError(f.t, err)
	return checks[id]
}

// checkID is that of the session's health check.
func (f *fixture) checkID() string {
	f.t.Helper()
	session, _, err := f.operator().Session().Info(f.s.ID(), nil)
	require.NoError(f.t, err)
	require.Len(f.t, session.ServiceChecks, 1)
	assert.Empty(f.t, session.NodeChecks, "a hiccup of the gossip ends it")
	return session.ServiceChecks[0].ID
}

// exists asks the servers whether the session lives. It tries until they answer.
func exists(t *testing.T, servers []*servertest.Consul, id string) bool {
	t.Helper()
	var there bool
	wait.For(t, "an answer", func() bool {
		for _, server := range servers {
			user, err := consultest.Operator(server)
			require.NoError(t, err)
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

// The agent of a checked session is restarted again and again, at any moment of the
// check's life. The session may end with it, but never before its window does.
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
			there := exists(t, f.Servers, f.s.ID())
			if now := time.Now(); !there {
				require.False(t, now.Before(f.s.Deadline()), "it ended %v before its window", f.s.Deadline().Sub(now))
				break
			}
			if f.s.State() == backend.Lost || server.WaitReady(wait.Patience) == nil && f.s.State() == backend.Live {
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
	assert.Equal(t, check, f.s.TTL())
	id := f.checkID()
	assert.NotNil(t, f.checkOf(id))
	require.NoError(t, f.s.Close(f.ctx))
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
	_, err := f.Backend.Open(f.ctx, backend.OpenOptions{})
	require.ErrorContains(t, err, "Invalid Session TTL")
	assert.Nil(t, f.checkOf(id))
}

// While the servers elect a leader nobody can renew the session. That takes longer than
// a check's TTL, and much less than the session's.
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
			f.awaitState(backend.Suspended)
			for end := f.s.Deadline(); time.Now().Before(end); {
				require.NotEqual(t, backend.Lost, f.s.State(), "the check was passed all the time")
				time.Sleep(10 * time.Millisecond)
			}
			remove()
			f.awaitState(backend.Live)

			// Not for longer than the session's own TTL, all the same.
			f.handle(renews, end)
			began := time.Now()
			f.lostAtDeadline()
			assert.True(t, f.s.Deadline().Before(began.Add(timeout)))
		})
	}
}

// Nor where the servers cannot be asked to end the session.
func TestCheckIsRemovedWithoutServers(t *testing.T) {
	servertest.Long(t, "a server and an agent")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	agent := servertest.ConsulAgentForTest(t, []*servertest.Consul{server}, servertest.ConsulConfig{NoSync: true})
	f := setUpChecked(t, agent)
	f.enqueue(f.s)
	require.NoError(t, server.Kill())
	require.Error(t, f.s.Close(f.ctx), "nobody has confirmed it")
	checks, err := f.operator().Agent().Checks()
	require.NoError(t, err)
	assert.Empty(t, checks)
	began := time.Now()
	require.NoError(t, server.Start())
	wait.For(t, "the session's end", func() bool { return !exists(t, []*servertest.Consul{server}, f.s.ID()) })
	t.Logf("the session went %v after the servers came back", time.Since(began))
}

// An agent that is being reloaded does not know its checks for a moment, and says so.
func TestCheckOverAgentReload(t *testing.T) {
	t.Parallel()
	f := setUpChecked(t, sharedServer(t))
	e := f.enqueue(f.s)
	asked, _ := f.first(1, under("agent/check/update"), answer(http.StatusNotFound, "Unknown check ID"))
	f.hasten(f.s)
	wait.For(t, "the answer", func() bool { return asked.Load() > 0 })
	f.renewed()
	f.stands(e)
}
