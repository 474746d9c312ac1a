package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/networktest"
)

// A server is one process of a coordination service.
type server interface {
	Name() string
	Host() int
	Addr() string
	Running() bool
	Launch() error
	WaitReady(timeout time.Duration) error
	Kill() error
	Stop() error
	Pause() error
	Resume() error
	Wipe() error
	LogTail(n int64) string
	Close() error
}

// A service is a coordination service that runs for one campaign.
type service struct {
	servers []server // that vote
	access  []server // that candidates connect to; a Consul agent is no server
	url     func(addrs ...string) string

	// leader returns the server that leads the others, and serves.
	leader func() (server, error)

	// entriesAt lists what there is of ephemeral entries in all of the service, by a server
	// that has to have heard from a quorum for that.
	entriesAt func(ctx context.Context, addr string) ([]string, error)

	// network is the servers' own, nil if no faults are to be between them. If there is one,
	// a server that has missed what fill writes by another gets a snapshot from the leader,
	// and says so in its log, see snapshot; but not when the leader says that it keeps what
	// it would else forget, see keeps.
	network  *networktest.Network
	fill     func(ctx context.Context, addr string) error
	snapshot string
	keeps    string

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
		if f.slow != 0 && m.kind.onServer && m.begin < t+int64(f.usual) && t < m.end+int64(f.slowFor) {
			return f.slow
		}
	}
	return f.usual
}

// most is the longest it may take.
func (f failover) most() time.Duration { return max(f.usual, f.slow) }

// patience bounds how long a server may take to serve.
const patience = 60 * time.Second

// services makes the services by name. Consul is there twice: sessions are tied to a health
// check, which lives a second longer at the agent than the session counts on; or they have
// a TTL alone, which the servers double.
var services = map[string]func(servers int, network *networktest.Network) (*service, error){
	"zookeeper": startZooKeeper,
	"etcd":      startEtcd,
	"consul": func(servers int, network *networktest.Network) (*service, error) {
		return startConsul(servers, network, "?check=2s", 2*time.Second, failover{usual: 3 * time.Second, slow: 20 * time.Second, slowFor: 30 * time.Second})
	},
	"consul-ttl": func(servers int, network *networktest.Network) (*service, error) {
		return startConsul(servers, network, "?timeout=10s", 10*time.Second, failover{usual: 20 * time.Second})
	},
}

// startService starts the service that a trial is of. The caller closes it.
func (t trial) startService() (*service, error) {
	var network *networktest.Network
	if t.servers > 1 && slices.Contains(t.faults, ofMembers) {
		var err error
		if network, err = networktest.New(t.servers + 1); err != nil { // one for an agent
			return nil, fmt.Errorf("%w; to do without faults between servers: -faults %s,%s", err, ofCandidates, ofServers)
		}
	}
	s, err := services[t.backend](t.servers, network)
	if err != nil && network != nil {
		return nil, errors.Join(err, network.Close())
	}
	return s, err
}

// entries lists what there is of ephemeral entries in all of the service.
func (s *service) entries(ctx context.Context) ([]string, error) {
	return s.entriesAt(ctx, s.access[0].Addr())
}

// settle waits until each server has heard from a quorum.
func (s *service) settle(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, x := range s.servers {
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

// close ends all servers.
func (s *service) close() error {
	var errs []error
	for _, x := range s.all() {
		errs = append(errs, x.Close())
	}
	if s.network != nil {
		errs = append(errs, s.network.Close())
	}
	return errors.Join(errs...)
}

// all are the servers, and the agents that are none.
func (s *service) all() []server {
	if len(s.access) == 0 || s.access[0] == s.servers[0] {
		return s.servers
	}
	return append(append([]server(nil), s.access...), s.servers...)
}

// log returns the ends of the servers' logs, for a campaign that failed.
func (s *service) log() string {
	var b strings.Builder
	for _, x := range s.all() {
		fmt.Fprintf(&b, "--- the log of %s ends with:\n%s\n", x.Name(), x.LogTail(64<<10))
	}
	return b.String()
}

// pick returns a voting server: the one that leads, or one that follows. Where that
// cannot be told, any.
func (s *service) pick(leads bool, n int) server {
	leader, err := s.leader()
	var others []server
	for _, x := range s.servers {
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
func up(x server) error {
	if err := x.Launch(); err != nil {
		return err
	}
	return x.WaitReady(patience)
}

// asServers turns members of a cluster into servers.
func asServers[S server](members []S) []server {
	var servers []server
	for _, m := range members {
		servers = append(servers, m)
	}
	return servers
}
