package consul_test

import (
	"net/http"
	"slices"
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
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// forAnHour are the options of a process whose sessions no TTL ends while a test lasts.
var forAnHour = consultest.Options{Config: consul.Config{SessionTimeout: time.Hour}}

// outOfTheCatalog checks that neither the session nor the term ends when the agent's node is taken out
// of the catalog: a candidate leads through one agent, and another waits for it through the others.
func outOfTheCatalog(t *testing.T, by *servertest.Consul, others []*servertest.Consul, begin func(*fixture) error) {
	t.Helper()
	f, o := processOn(t, forAnHour, by), processOn(t, forAnHour, others...)
	election := newRoot()
	term := f.Campaign(f.Stand(elector.Config{Backend: f.Backend, Election: election}))
	heir := o.Stand(elector.Config{Backend: o.Backend, Election: election})
	winning := o.Campaigns(heir)
	o.Queue(heir, 2)
	node := must.Get(f.operator().Agent().NodeName())(t)

	require.NoError(t, begin(f))
	wait.For(t, "the node is out of the catalog", func() bool {
		for _, server := range others {
			user := must.Get(consultest.Operator(server))(t)
			if found, _, err := user.Catalog().Node(node, &api.QueryOptions{RequireConsistent: true}); err == nil {
				return found == nil
			}
		}
		return false
	})
	id := term.Guard().Session.ID()
	require.True(t, exists(t, others, id), "the session went with the node; the term is valid: %v", term.Valid())
	require.True(t, term.Valid())
	wait.Pending(o.T, winning)

	require.NoError(t, consultest.Destroy(others, id))
	o.Succeeds(winning, term)
}

// Autopilot takes a server that is cut off out of the catalog, within seconds and by default.
func TestServerThatIsCutOffLeavesTheCatalog(t *testing.T) {
	for _, name := range []string{"a follower", "the leader"} {
		t.Run(name, func(t *testing.T) {
			network := networktest.ForTest(t, 3)
			cluster := servertest.ConsulClusterForTest(t, 3, servertest.ConsulConfig{NoSync: true, Network: network})
			leader := must.Get(cluster.WaitLeader(wait.Patience))(t)
			at := slices.Index(cluster.Members, leader)
			if name == "a follower" {
				at = (at + 1) % 3
			}
			by, others := apart(cluster.Members, at)
			outOfTheCatalog(t, by, others, func(*fixture) error { return network.CutOff(by.Host()) })
		})
	}
}

// Agents leave by "consul leave", and when they are stopped if configured so. Servers that are all
// restarted at once take the agents out that they do not find.
func TestAgentLeavesTheCatalog(t *testing.T) {
	cluster := servertest.ConsulClusterForTest(t, 3, servertest.ConsulConfig{NoSync: true})
	leave := func(f *fixture) error {
		user := f.operator()
		go user.Agent().Leave() // it is answered late, and until then the agent may register again
		return nil
	}
	agent := func(t *testing.T) *servertest.Consul {
		return servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
	}
	t.Run("an agent leaves", func(t *testing.T) { outOfTheCatalog(t, agent(t), cluster.Members, leave) })
	t.Run("all servers are restarted beside an agent that is down", func(t *testing.T) {
		down := agent(t)
		outOfTheCatalog(t, down, cluster.Members, func(*fixture) error {
			if err := down.Kill(); err != nil {
				return err
			}
			for _, m := range cluster.Members {
				if err := m.Kill(); err != nil {
					return err
				}
			}
			return cluster.Start()
		})
	})
	t.Run("the servers' leader leaves", func(t *testing.T) {
		leader := must.Get(cluster.WaitLeader(wait.Patience))(t)
		by, others := apart(cluster.Members, slices.Index(cluster.Members, leader))
		outOfTheCatalog(t, by, others, leave)
	})
}

// apart returns one of the members, and the others.
func apart(members []*servertest.Consul, i int) (one *servertest.Consul, others []*servertest.Consul) {
	return members[i], slices.Delete(slices.Clone(members), i, i+1)
}

// The first session of all creates the node, or several at once do; nothing in it lets a server remove
// it, and it is not registered again.
func TestSessionNode(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := processOn(t, forAnHour, server)
	makes := func(r *consultest.Request) bool { return len(r.Txn) == 1 && r.Txn[0].Node != nil }
	made, refused := f.countAnswers(makes, http.StatusOK), f.countAnswers(makes, http.StatusConflict)
	var all []<-chan wait.Result[*backend.Session]
	for range 8 {
		all = append(all, wait.Later(func() (*backend.Session, error) { return f.Backend.Open(f.Ctx, backend.OpenOptions{}) }))
	}
	user := f.operator()
	for _, opening := range all {
		s := wait.Value(f.T, opening)
		defer s.Close(f.Ctx)
		session := must.First(user.Session().Info(s.ID(), nil))(t)
		assert.Equal(t, consul.SessionNode, session.Node)
		assert.Equal(t, api.SessionBehaviorDelete, session.Behavior)
		assert.Empty(t, session.Checks)
		assert.Empty(t, session.NodeChecks)
		assert.Empty(t, session.ServiceChecks)
	}
	assert.EqualValues(t, 1, made.Load(), "%d were late", refused.Load())
	before := refused.Load()
	f.S = f.open()
	assert.EqualValues(t, 1+before, made.Load()+refused.Load(), "the node is there")
	node := must.First(user.Catalog().Node(consul.SessionNode, nil))(t)
	assert.Equal(t, map[string]string{"external-node": "true", "external-probe": "false"}, node.Node.Meta)
	assert.Empty(t, node.Services)
	checks := must.First(user.Health().Node(consul.SessionNode, nil))(t)
	assert.Empty(t, checks)
}

// An operator who takes the node out ends all sessions on it, and the next one creates it again.
func TestSessionNodeIsTakenOut(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, forAnHour, servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true}))
	must.Get(f.operator().Catalog().Deregister(&api.CatalogDeregistration{Node: consul.SessionNode}, nil))(t)
	f.hasten(f.S)
	f.AwaitState(f.S, backend.Lost)
	assert.Equal(t, backend.Live, f.open().State())
}
