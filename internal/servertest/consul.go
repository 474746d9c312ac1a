package servertest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// Consul is the process of one Consul agent: a server, or a client agent that StartConsulAgent made. Its
// methods may be called from any goroutine; those that start or end the process exclude each other.
type Consul struct {
	*Server
	consulSecrets
}

// consulSecrets are the secrets that the agents of a cluster share.
type consulSecrets struct {
	token string // "" without ACLs
	// gossip is this cluster's key. An agent keeps looking for members that are gone, and another test's
	// cluster may have their ports by then: without a key the two clusters would merge.
	gossip string
}

func newConsulSecrets(acl bool) consulSecrets {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	s := consulSecrets{gossip: base64.StdEncoding.EncodeToString(key[:])}
	if acl {
		s.token = uuid()
	}
	return s
}

// consulBinary finds or builds the server, once per process.
var consulBinary = sync.OnceValues(func() (string, error) {
	return buildServer("consul", "github.com/hashicorp/consul")
})

// ConsulCommand returns the path of the executable, which is the server and the command line tool. The
// first use on a machine builds it, which takes minutes.
func ConsulCommand() (path string, err error) { return consulBinary() }

// StartConsul starts a server and blocks until it serves. The first use on a machine builds the server,
// which takes minutes. The caller closes it.
func StartConsul(cfg ConsulConfig) (*Consul, error) {
	return alone(StartConsulCluster(1, cfg))
}

// StartConsulAgent starts a client agent that joins the servers. It blocks until the agent serves and the
// servers know its node to be healthy. The caller closes it.
func StartConsulAgent(servers []*Consul, cfg ConsulConfig) (*Consul, error) {
	cfg = cfg.withDefaults()
	sites, err := cfg.Network.Take(1)
	if err != nil {
		return nil, err
	}
	ports, err := loopback.Ports(3)
	if err != nil {
		return nil, err
	}
	g := new(group)
	var gossip []string
	for _, s := range servers {
		g.members = append(g.members, s.Server)
		gossip = append(gossip, s.at.Addr(s.ports[1]))
	}
	c, err := newConsul(cfg, g, "agent-"+strconv.Itoa(ports[0]), servers[0].consulSecrets, sites[0], ports, 0, gossip)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// newConsul prepares a member of a group without starting it. On success the agent owns its ports: for
// HTTP, gossip and the servers' protocol. Consul.file documents servers and gossip.
func newConsul(cfg ConsulConfig, g *group, node string, secrets consulSecrets, at networktest.Site, ports []int, servers int, gossip []string) (*Consul, error) {
	path, err := consulBinary()
	if err != nil {
		return nil, err
	}
	s, err := newServer("consul", process.Spec{Name: "Consul " + node, Path: path, Dir: cfg.Dir}, at, ports)
	if err != nil {
		return nil, err
	}
	c := &Consul{Server: s, consulSecrets: secrets}
	c.node = node // in the catalog
	file, err := c.file(servers, gossip)
	own, more := filepath.Join(s.dir, "agent.json"), filepath.Join(s.dir, "more.hcl") // JSON is HCL, too
	err = errors.Join(err, os.WriteFile(own, file, 0o600), os.WriteFile(more, []byte(cfg.Config), 0o600))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), os.RemoveAll(s.dir))
	}
	s.proc.Spec.Args = []string{"agent", "-config-file", own, "-config-file", more}
	g.members = append(g.members, s)
	s.prepare = func() error { return g.enter(s) }
	s.forget = c.deregister
	s.probe = c.healthy
	if servers > 0 {
		s.probe = c.votes
	}
	return c, nil
}

// Token returns the token that permits everything, or "" without ConsulConfig.ACL.
func (c *Consul) Token() string { return c.token }

// ask sends a request to the agent's HTTP API.
func (c *Consul) ask(timeout time.Duration, method, path, body string, result any) error {
	header := make(http.Header)
	if c.token != "" {
		header.Set("X-Consul-Token", c.token)
	}
	return ask(timeout, method, "http://"+c.Addr()+path, header, body, result)
}

// healthy returns nil if there is a leader, confirmed by a quorum, that knows this agent's node to be
// alive: sessions with health checks depend on it.
func (c *Consul) healthy(timeout time.Duration) error {
	var leader string
	if err := c.ask(timeout, http.MethodGet, "/v1/status/leader", "", &leader); err != nil {
		return err
	}
	if leader == "" { // Consul would hold any other request for seconds
		return fmt.Errorf("servertest: %s knows no leader: %w", c.Name(), ErrNotServing)
	}
	var checks []struct{ CheckID, Status string }
	if err := c.ask(timeout, http.MethodGet, "/v1/health/node/"+c.node+"?consistent", "", &checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.CheckID == "serfHealth" && check.Status == "passing" {
			return nil
		}
	}
	return fmt.Errorf("servertest: %s is not known to be alive: %w", c.Name(), ErrNotServing)
}

// ConsulCluster is a group of Consul servers that replicate each other.
type ConsulCluster = Cluster[*Consul]

// StartConsulCluster starts n servers (usually three or five) in parallel and blocks until all serve and
// one of them leads. The caller closes it.
//
// A wiped member comes back as a new server at the old address. Its next start waits until a quorum of the
// others serves, for wait.Patience at most, and then until they have given it a vote, which takes about ten
// seconds.
func StartConsulCluster(n int, cfg ConsulConfig) (*ConsulCluster, error) {
	cfg = cfg.withDefaults()
	g := new(group)
	secrets := newConsulSecrets(cfg.ACL)
	return startCluster(cfg.Network, n, 3, func(i int, sites []networktest.Site, ports [][]int) (*Consul, error) {
		var gossip []string
		for i, p := range ports {
			gossip = append(gossip, sites[i].Addr(p[1]))
		}
		return newConsul(cfg, g, "server-"+strconv.Itoa(i+1), secrets, sites[i], ports[i], n, gossip)
	})
}

// uuid returns a random UUID, the form that Consul requires of tokens.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// votes returns nil if the server is healthy and has a vote in the quorum. A server that has lost its data
// is at first healthy without a vote.
func (c *Consul) votes(timeout time.Duration) error {
	if err := c.healthy(timeout); err != nil {
		return err
	}
	self, err := c.self(timeout)
	if err != nil {
		return err
	}
	var raft struct {
		Servers []struct {
			ID    string
			Voter bool
		}
	}
	if err := c.ask(timeout, http.MethodGet, "/v1/operator/raft/configuration", "", &raft); err != nil {
		return err
	}
	for _, s := range raft.Servers {
		if s.ID == self.Config.NodeID && s.Voter {
			return nil
		}
	}
	return fmt.Errorf("servertest: %s has no vote: %w", c.Name(), ErrNotServing)
}

// leads returns the raft term if the server leads and a quorum confirms it.
func (c *Consul) leads() (uint64, error) {
	self, err := c.self(answerTimeout)
	if err != nil || self.Stats.Raft.State != "Leader" {
		return 0, err
	}
	return self.Stats.Raft.Term, c.probe(answerTimeout)
}

// consulSelf is what an agent reports about itself.
type consulSelf struct {
	Config struct{ NodeID string }
	Stats  struct {
		Raft struct {
			State string
			Term  uint64 `json:",string"`
		}
	}
}

func (c *Consul) self(timeout time.Duration) (self consulSelf, err error) {
	err = c.ask(timeout, http.MethodGet, "/v1/agent/self", "", &self)
	return self, err
}

// deregister removes the lost agent's node from the catalog: while it is there, no agent with a new ID gets
// the node's name. Raft needs no help: a server with a new ID at an old address replaces the old one.
func (c *Consul) deregister(lost *Server) error {
	body, err := json.Marshal(object{"Node": lost.node})
	if err != nil {
		return err
	}
	return c.ask(answerTimeout, http.MethodPut, "/v1/catalog/deregister", string(body), nil)
}
