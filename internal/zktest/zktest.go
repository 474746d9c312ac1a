package zktest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
)

// Servers is one ZooKeeper server, or an ensemble.
type Servers struct {
	*servicetest.Servers[*servertest.ZooKeeper]
	change func(*zookeeper.Config) // of the processes, or nil
}

const name = "zookeeper"

// Single starts a server of its own for t.
func Single(t testing.TB) *Servers {
	t.Helper()
	return &Servers{Servers: servicetest.Single(t, name, starter(t, servertest.ZooKeeperConfig{}))}
}

// Ensemble starts an ensemble of three for t, on the loopback.
func Ensemble(t testing.TB) *Servers {
	t.Helper()
	return EnsembleWith(t, servertest.ZooKeeperConfig{}, nil)
}

// EnsembleWith is Ensemble with settings of the servers, and of the processes.
func EnsembleWith(t testing.TB, cfg servertest.ZooKeeperConfig, change func(*zookeeper.Config)) *Servers {
	t.Helper()
	return &Servers{servicetest.Cluster(t, name, starter(t, cfg)), change}
}

// EnsembleOnNetwork is Ensemble on a network of its own, if this process may have one.
func EnsembleOnNetwork(t testing.TB) *Servers {
	t.Helper()
	return &Servers{Servers: servicetest.ClusterOnNetwork(t, name, starter(t, servertest.ZooKeeperConfig{}))}
}

func starter(t testing.TB, cfg servertest.ZooKeeperConfig) servicetest.Starter[*servertest.ZooKeeper] {
	return func(n int, network *networktest.Network) *servertest.Ensemble {
		t.Helper()
		cfg.NoSync, cfg.QuickStart, cfg.Network = true, true, network
		return servertest.EnsembleForTest(t, n, cfg)
	}
}

// operate acts as an operator, on a connection of its own: an older one may have been accepted too
// early when a server came back, never get a reply, and be kept by the client library for a minute.
func (s *Servers) operate(key string, do func(*zk.Conn) error) error {
	conn, err := connect(s.Addrs())
	if err != nil {
		return err
	}
	defer conn.Close()
	// Recent writes of others may not have reached this member.
	if _, err := conn.Sync(key); err != nil {
		return err
	}
	return do(conn)
}

func (s *Servers) watches() (int, error) {
	var sum float64
	for _, m := range s.Members {
		metrics, err := m.Metrics()
		if err != nil {
			return 0, err
		}
		n, ok := metrics["watch_count"]
		if !ok {
			return 0, fmt.Errorf("%s: mntr has no watch_count", m.Name())
		}
		sum += n
	}
	return int(sum), nil
}

// stored counts nodes and bytes at the member that has most: others may lag behind it.
func (s *Servers) stored() (keys, bytes int, err error) {
	for _, m := range s.Members {
		metrics, err := m.Metrics()
		if err != nil {
			return 0, 0, err
		}
		keys = max(keys, int(metrics["znode_count"]))
		bytes = max(bytes, int(metrics["approximate_data_size"]))
	}
	return keys, bytes, nil
}

// Service returns a function that makes services on the servers, each with its own root.
func (s *Servers) Service(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			TTL: ttl,
			Delete: func(key string) error {
				return s.operate(key, func(conn *zk.Conn) error { return DeleteAll(conn, key) })
			},
			Put: func(key string, value []byte) error {
				return s.operate(key, func(conn *zk.Conn) error { return PutAll(conn, key, value) })
			},
			MaxBytes: zookeeper.DefaultMaxRequest,
			Watches:  s.watches,
			Stored:   s.stored,
			Why: map[string]string{
				"UseUp":        "it takes a patched snapshot, which is tried on one server",
				"MaxOps":       "a transaction is bounded by its bytes only",
				"HoldWakeups":  "events and answers come over one connection in one order: none can be held while others go on",
				"DelayRequest": "requests go over one connection in one order: none overtakes another",
			},
		}
		if len(s.Members) == 1 {
			svc.UseUp = func(dir string, left int) error {
				return s.Members[0].SetCounter(dir, math.MaxInt32-int32(left))
			}
		}
		process := func(t testing.TB) *Process { return NewProcess(t, s.Addrs(), s.change) }
		return servicetest.Service(s.Servers, svc, process, nil)
	}
}

// Conformance returns the process as the suites see it.
func (p *Process) Conformance() *conformance.Client {
	return servicetest.Client(p.Backend, p.Links, p, MatchKind)
}
