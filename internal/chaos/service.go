package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A server is one process of a coordination service.
type server interface {
	Name() string
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

	// entries lists what there is of ephemeral entries in all of the service.
	entries func(ctx context.Context) ([]string, error)

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
var services = map[string]func(servers int) (*service, error){
	"zookeeper": startZooKeeper,
	"etcd":      startEtcd,
	"consul": func(servers int) (*service, error) {
		return startConsul(servers, "?check=2s", 2*time.Second, failover{usual: 3 * time.Second, slow: 20 * time.Second, slowFor: 30 * time.Second})
	},
	"consul-ttl": func(servers int) (*service, error) {
		return startConsul(servers, "?timeout=10s", 10*time.Second, failover{usual: 20 * time.Second})
	},
}

func (s *service) cluster() bool { return len(s.servers) > 1 }

// close ends all servers.
func (s *service) close() error {
	var errs []error
	for _, x := range s.all() {
		errs = append(errs, x.Close())
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
