package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/services"
)

// A service is a coordination service that runs for one campaign.
type service struct {
	*services.Cluster
	parameters string // of its URL

	// entriesAt lists all ephemeral entries in the service, from a server that must first hear from a
	// quorum.
	entriesAt func(ctx context.Context, addr string) ([]string, error)

	// network connects the servers, or is nil without faults between them. On a network a server that has
	// missed what fill writes through another gets a snapshot from the leader, and logs the text snapshot,
	// except when the leader logs the text keeps: that it keeps what it would otherwise forget. Without
	// fill there are no such faults.
	network  *networktest.Network
	fill     func(ctx context.Context, addr string) error
	snapshot string
	keeps    string

	// leave makes a server leave the others; nil if it can only stop.
	leave func(addr string) error

	timeout time.Duration // of the candidates' sessions

	failover failover
}

// failover is how long after the last word of a candidate its entries are gone.
type failover struct {
	usual time.Duration

	// slow is how long it may take within slowFor after a fault of the service. A Consul agent that could
	// not report everything to the servers, or was busy when it should, waits up to 30 s, and does not
	// report a check that became critical meanwhile. Then the session's own TTL ends it, for twice which
	// the servers wait: at least 10 s.
	slow, slowFor time.Duration
}

// at returns the failover time of a candidate whose last word was at t.
func (f failover) at(t int64, faults []meeting) time.Duration {
	for _, m := range faults {
		if f.slow != 0 && m.kind.onServer() && m.begin < t+int64(f.usual) && t < m.end+int64(f.slowFor) {
			return f.slow
		}
	}
	return f.usual
}

// most returns the longest failover time.
func (f failover) most() time.Duration { return max(f.usual, f.slow) }

// patience limits how long a server may take to serve.
const patience = 60 * time.Second

// A target is a service that -backend can name. On a network servers keep little of their log. With stock they
// have the settings of an installation as far as possible: every write goes to the disk, and the log is long.
type target struct {
	name    string
	says    string // what its sessions are, if there are several kinds
	noStock bool   // it has no stock settings
	start   func(servers int, network *networktest.Network, stock bool) (*service, error)
}

// targets are the services with a client that lists entries, and with settings for servers to break.
var targets = []target{
	{name: services.ZooKeeper.Name, start: startZooKeeper},
	{name: services.Etcd.Name, start: startEtcd},
	{name: services.Consul.Name, says: " (sessions tied to health checks)", noStock: true, start: startConsul},
	{name: services.Consul.Name + "-ttl", says: " (not)", start: startConsulTTL},
}

// startService starts the service of a trial. The caller closes it.
func (t trial) startService() (*service, error) {
	var network *networktest.Network
	if t.servers > 1 && slices.Contains(t.faults, ofMembers) {
		var err error
		if network, err = networktest.New(t.servers + 1); err != nil { // one for an agent
			return nil, fmt.Errorf("%w; to do without faults between servers: -faults %s,%s", err, ofCandidates, ofServers)
		}
	}
	i := slices.IndexFunc(targets, func(x target) bool { return x.name == t.backend })
	s, err := targets[i].start(t.servers, network, t.stock)
	s.network = network
	if t.stock {
		s.fill = nil
	}
	if err != nil && network != nil {
		err = errors.Join(err, network.Close())
	}
	return s, err
}

// url returns the URL of the service for candidates that use the servers at these addresses.
func (s *service) url(addrs ...string) string { return s.URL(s.parameters, addrs...) }

// settle waits until each server has heard from a quorum.
func (s *service) settle(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, x := range s.Servers {
		for {
			trying, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := s.entriesAt(trying, x.Addr())
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s has not found a quorum in %v: %w", x.Name(), patience, err)
			}
			time.Sleep(25 * time.Millisecond)
		}
	}
	return nil
}

// close ends all servers and removes their network.
func (s *service) close() error {
	err := s.Cluster.Close()
	if s.network != nil {
		err = errors.Join(err, s.network.Close())
	}
	return err
}

// pick returns a voting server: the leader, or a follower. If that is unknown it returns any server.
func (s *service) pick(leads bool, n int) services.Server {
	leader, err := s.Leader()
	var others []services.Server
	for _, x := range s.Servers {
		if err != nil || x != leader {
			others = append(others, x)
		}
	}
	if err == nil && (leads || len(others) == 0) {
		return leader
	}
	return others[n%len(others)]
}

// up starts a server and waits until it serves.
func up(x services.Server) error {
	if err := x.Launch(); err != nil {
		return err
	}
	return x.WaitReady(patience)
}
