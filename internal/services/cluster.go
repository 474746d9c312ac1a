// Package services starts the servers of coordination services, and connects clients whose links can be
// cut, for tools that hold elections on them.
package services

import (
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/internal/servertest"
)

// A Server is one process of a coordination service.
type Server = servertest.Member

// A Cluster is the servers of one service, one or more, that this process has started.
type Cluster struct {
	Servers []Server // voting ones
	Access  []Server // those that clients connect to; a Consul agent is no server

	// Leader returns the server that leads the others and serves.
	Leader func() (Server, error)

	scheme string
	all    []Server
}

// StartZooKeeper starts n servers. The caller closes them, as with the functions below.
func StartZooKeeper(n int, cfg servertest.ZooKeeperConfig) (*Cluster, error) {
	e, err := servertest.StartZooKeeperEnsemble(n, cfg)
	if err != nil {
		return nil, err
	}
	return newCluster(ZooKeeper, e), nil
}

// StartEtcd starts n servers.
func StartEtcd(n int, cfg servertest.EtcdConfig) (*Cluster, error) {
	c, err := servertest.StartEtcdCluster(n, cfg)
	if err != nil {
		return nil, err
	}
	return newCluster(Etcd, c), nil
}

// StartConsul starts n servers and, if n > 1, an agent for the candidates: a session with a health check is
// tied to one agent.
func StartConsul(n int, cfg servertest.ConsulConfig) (*Cluster, error) {
	servers, err := servertest.StartConsulCluster(n, cfg)
	if err != nil {
		return nil, err
	}
	c := newCluster(Consul, servers)
	if n > 1 {
		cfg.Config = "" // it is for the servers
		agent, err := servertest.StartConsulAgent(servers.Members, cfg)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Access = []Server{agent}
		c.all = append([]Server{agent}, c.Servers...)
	}
	return c, nil
}

func newCluster[S Server](s Service, of *servertest.Cluster[S]) *Cluster {
	c := &Cluster{scheme: s.Scheme, Leader: func() (Server, error) { return of.Leader() }}
	for _, m := range of.Members {
		c.Servers = append(c.Servers, m)
	}
	c.Access, c.all = c.Servers, c.Servers
	return c
}

// Addr returns the address for a client that needs only one server.
func (c *Cluster) Addr() string { return c.Access[0].Addr() }

// URL returns the service's URL for package dial, with servers at these addresses.
func (c *Cluster) URL(parameters string, addrs ...string) string {
	return c.scheme + "://" + strings.Join(addrs, ",") + parameters
}

// Close ends all servers.
func (c *Cluster) Close() error {
	var errs []error
	for _, x := range c.all {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// Log returns the ends of the servers' logs.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, x := range c.all {
		fmt.Fprintf(&b, "--- the log of %s ends with:\n%s\n", x.Name(), x.LogTail(64<<10))
	}
	return b.String()
}
