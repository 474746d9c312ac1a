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

	// entriesAt lists what there is of ephemeral entries in all of the service, by a server
	// that has to have heard from a quorum for that.
	entriesAt func(ctx context.Context, addr string) ([]string, error)

	// network is the servers' own, nil if no faults are to be between them. If there is one,
	// a server that has missed what fill writes by another gets a snapshot from the leader,
	// and says so in its log, see snapshot; but not when the leader says that it keeps what
	// it would else forget, see keeps. Without fill there are no such faults.
	network  *networktest.Network
	fill     func(ctx context.Context, addr string) error
	snapshot string
	keeps    string

	// leave has a server leave the others; nil where it can only stop.
	leave func(addr string) error

	timeout time.Duration // of the candidates' sessions

	failover failover
}

// failover is how long after the last word of a candidate its entries are gone.
type failover struct {
	usual time.Duration

	// slow is how long it may take in the time slowFor after a fault of the service. A Consul
	// agent that could not tell the servers everything, or was busy when it was to, waits up
	// to 30 s, and does not tell them of a check that became critical meanwhile. Then the
	// session's own TTL ends it, of which the servers wait for twice: 10 s at least.
	slow, slowFor time.Duration
}

// at is what it is for a candidate whose last word was at an instant.
func (f failover) at(t int64, faults []meeting) time.Duration {
	for _, m := range faults {
		if f.slow != 0 && m.kind.onServer() && m.begin < t+int64(f.usual) && t < m.end+int64(f.slowFor) {
			return f.slow
		}
	}
	return f.usual
}

// most is the longest it may take.
func (f failover) most() time.Duration { return max(f.usual, f.slow) }

// patience bounds how long a server may take to serve.
const patience = 60 * time.Second

// starters start the services, by name. Consul is there twice. On a network servers keep
// little of their log. Where stock is asked for they are as they are installed, as far as
// they can be started and reached so: each write on the disk, a long log.
var starters = map[string]func(servers int, network *networktest.Network, stock bool) (*service, error){
	"zookeeper": startZooKeeper, "etcd": startEtcd, "consul": startConsul, "consul-ttl": startConsulTTL,
}

// withoutStock is the one that has no stock settings.
const withoutStock = "consul"

// startService starts the service that a trial is of. The caller closes it.
func (t trial) startService() (*service, error) {
	var network *networktest.Network
	if t.servers > 1 && slices.Contains(t.faults, ofMembers) {
		var err error
		if network, err = networktest.New(t.servers + 1); err != nil { // one for an agent
			return nil, fmt.Errorf("%w; to do without faults between servers: -faults %s,%s", err, ofCandidates, ofServers)
		}
	}
	s, err := starters[t.backend](t.servers, network, t.stock)
	s.network = network
	if t.stock {
		s.fill = nil
	}
	if err != nil && network != nil {
		err = errors.Join(err, network.Close())
	}
	return s, err
}

// url is where candidates find the service, by way of servers at these addresses.
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

// close ends all servers, and removes their network.
func (s *service) close() error {
	err := s.Cluster.Close()
	if s.network != nil {
		err = errors.Join(err, s.network.Close())
	}
	return err
}

// pick returns a voting server: the one that leads, or one that follows. Where that
// cannot be told, any.
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
