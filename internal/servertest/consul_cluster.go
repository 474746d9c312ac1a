package servertest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/elector-go/elector/internal/networktest"
)

// ConsulCluster is a group of Consul servers that replicate each other.
type ConsulCluster struct {
	*cluster[*Consul]
}

// StartConsulCluster starts n servers (three or five, usually) side by side and
// blocks until all serve and one of them leads. The caller closes it.
//
// A member that was wiped comes back as a new server at the old address. Its next
// start waits until a quorum of the others serves, for wait.Patience at most, and
// then until they have given it a vote, which takes about ten seconds.
func StartConsulCluster(n int, cfg ConsulConfig) (*ConsulCluster, error) {
	cfg = cfg.withDefaults()
	g := new(group)
	secrets := newConsulSecrets(cfg.ACL)
	c, err := startCluster(cfg.Network, n, 3, func(i int, sites []networktest.Site, ports [][]int) (*Consul, error) {
		var gossip []string
		for i, p := range ports {
			gossip = append(gossip, sites[i].Addr(p[1]))
		}
		return newConsul(cfg, g, "server-"+strconv.Itoa(i+1), secrets, sites[i], ports[i], n, gossip)
	})
	if err != nil {
		return nil, err
	}
	return &ConsulCluster{c}, nil
}

// uuid returns a random one, the form that Consul wants tokens to have.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// votes returns nil if the server is healthy and a quorum counts on it. One that
// has lost its data is healthy without a vote at first.
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

// consulSelf is what an agent says of itself.
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

// deregister removes the lost agent's node from the catalog: while it is there, no
// agent with a new id gets the node's name. Raft needs no help: a server with a new
// id at an old address takes the old one's place.
func (c *Consul) deregister(lost *server) error {
	body, err := json.Marshal(object{"Node": lost.node})
	if err != nil {
		return err
	}
	return c.ask(answerTimeout, http.MethodPut, "/v1/catalog/deregister", string(body), nil)
}
