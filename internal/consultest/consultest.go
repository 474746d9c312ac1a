package consultest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// The limits of one transaction: Consul's own, as the backend's errors name them. The bytes are those
// of a request's body, in which values are base64.
const (
	maxOps   = 128
	maxBytes = 512 << 10 / 4 * 3
)

// Servers are one Consul server, or a cluster.
type Servers struct {
	*servicetest.Servers[*servertest.Consul]
	waiting atomic.Int64 // blocking queries of all processes
}

const service = "consul"

// Single starts a server for t alone.
func Single(t testing.TB) *Servers {
	t.Helper()
	return &Servers{Servers: servicetest.Single(t, service, starter(t))}
}

// Cluster starts a cluster of three for t, on the loopback.
func Cluster(t testing.TB) *Servers {
	t.Helper()
	return &Servers{Servers: servicetest.Cluster(t, service, starter(t))}
}

// ClusterOnNetwork is Cluster on its own network, if this process may have one.
func ClusterOnNetwork(t testing.TB) *Servers {
	t.Helper()
	return &Servers{Servers: servicetest.ClusterOnNetwork(t, service, starter(t))}
}

// starter lets the processes of a test, which all have one address, have as many connections as if each
// had its own.
func starter(t testing.TB) servicetest.Starter[*servertest.Consul] {
	return func(n int, network *networktest.Network) *servertest.ConsulCluster {
		t.Helper()
		return servertest.ConsulClusterForTest(t, n, servertest.ConsulConfig{
			NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`, Network: network,
		})
	}
}

// NewProcess makes a process whose blocking queries are counted as watches.
func (s *Servers) NewProcess(t testing.TB, cfg consul.Config) *Process {
	t.Helper()
	p := NewProcess(t, s.Members, Options{Config: cfg})
	p.waiting = &s.waiting
	return p
}

// Service makes services on the servers, each with its own root. cfg is the configuration of their
// processes.
func (s *Servers) Service(ttl time.Duration, cfg consul.Config) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			TTL:      ttl,
			Delete:   func(key string) error { return DeleteAll(s.Members, key) },
			Put:      func(key string, value []byte) error { return PutAll(s.Members, key, value) },
			MaxOps:   maxOps,
			MaxBytes: maxBytes,
			Watches:  func() (int, error) { return int(s.waiting.Load()), nil },
			Stored:   func() (keys, bytes int, err error) { return Stored(s.Members) },
			Why:      map[string]string{"UseUp": "indexes have 64 bits: there is no end to them"},
		}
		// Autopilot has removed a member that was away; until it votes again, the rest would have no
		// quorum without another one.
		back := func(m *servertest.Consul) error { return m.WaitReady(wait.Patience) }
		process := func(t testing.TB) *Process { return s.NewProcess(t, cfg) }
		return servicetest.Service(s.Servers, svc, process, back)
	}
}

// Conformance returns the process as the suites see it.
func (p *Process) Conformance() *conformance.Client {
	c := servicetest.Client(p.Backend, p.Links, p, MatchKind)
	c.DelayRequest = func(kind backend.OpKind, d time.Duration) (sent func() bool) {
		return p.DelayRequest(MatchKind(kind), d)
	}
	c.HoldWakeups, c.Close = p.HoldWakeups, p.Close
	return c
}
