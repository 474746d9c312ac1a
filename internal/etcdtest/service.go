package etcdtest

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
)

// Servers are one etcd server, or a cluster.
type Servers struct {
	*servicetest.Servers[*servertest.Etcd]
}

const name = "etcd"

// Single starts a server for t alone.
func Single(t testing.TB, args ...string) *Servers {
	t.Helper()
	return &Servers{servicetest.Single(t, name, starter(t, args...))}
}

// Cluster starts a cluster of three for t, on the loopback.
func Cluster(t testing.TB) *Servers {
	t.Helper()
	return &Servers{servicetest.Cluster(t, name, starter(t))}
}

// ClusterOnNetwork is Cluster on its own network, if this process may have one.
func ClusterOnNetwork(t testing.TB) *Servers {
	t.Helper()
	return &Servers{servicetest.ClusterOnNetwork(t, name, starter(t))}
}

func starter(t testing.TB, args ...string) servicetest.Starter[*servertest.Etcd] {
	return func(n int, network *networktest.Network) *servertest.EtcdCluster {
		t.Helper()
		return servertest.EtcdClusterForTest(t, n, servertest.EtcdConfig{NoSync: true, Args: args, Network: network})
	}
}

// Watches counts the watches that the members have.
func (s *Servers) Watches() (int, error) {
	var sum int
	for _, m := range s.Members {
		n, err := Metric(m, "etcd_debugging_mvcc_watcher_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Metric reads one of a member's metrics. The name includes its labels, as the member writes them.
func Metric(m *servertest.Etcd, name string) (int, error) {
	client := http.Client{Timeout: oneTry, Transport: &http.Transport{}} // without a proxy
	defer client.CloseIdleConnections()
	answer, err := client.Get(m.URL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no metric %s", m.URL(), name), lines.Err())
}

// Service makes services on the servers, each with its own root.
func (s *Servers) Service(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			TTL:      ttl,
			Delete:   func(key string) error { return DeleteAll(s.Addrs(), key) },
			Put:      func(key string, value []byte) error { return PutAll(s.Addrs(), key, value) },
			MaxOps:   etcd.DefaultMaxOps,
			MaxBytes: etcd.DefaultMaxRequest,
			Watches:  s.Watches,
			Stored:   func() (keys, bytes int, err error) { return Stored(s.Addrs()) },
			Why:      map[string]string{"UseUp": "revisions have 63 bits: there is no end to them"},
		}
		process := func(t testing.TB) *Process { return NewProcess(t, s.Addrs(), nil) }
		return servicetest.Service(s.Servers, svc, process, nil)
	}
}

// Conformance returns the process as the suites see it.
func (p *Process) Conformance() *conformance.Client {
	c := servicetest.Client(p.Backend, p.Links, p, MatchKind)
	c.DelayRequest = func(kind backend.OpKind, d time.Duration) (sent func() bool) {
		return p.DelayRequest(MatchKind(kind), d)
	}
	c.HoldWakeups, c.Close = p.HoldWakeups, p.close
	return c
}
