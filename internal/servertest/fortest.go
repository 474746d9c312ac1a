package servertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// ZooKeeperForTest starts a server and closes it when the test ends. If the server cannot be started, or is
// not installed, the test fails at once. If the test fails, its log gets the end of the server's log.
func ZooKeeperForTest(tb testing.TB, cfg ZooKeeperConfig) *ZooKeeper {
	tb.Helper()
	return forTest(tb, StartZooKeeper, cfg)
}

// EtcdForTest is ZooKeeperForTest for an etcd server.
func EtcdForTest(tb testing.TB, cfg EtcdConfig) *Etcd {
	tb.Helper()
	return forTest(tb, StartEtcd, cfg)
}

// ConsulForTest is ZooKeeperForTest for a Consul server.
func ConsulForTest(tb testing.TB, cfg ConsulConfig) *Consul {
	tb.Helper()
	return forTest(tb, StartConsul, cfg)
}

// ConsulAgentForTest is ZooKeeperForTest for a Consul client agent.
func ConsulAgentForTest(tb testing.TB, servers []*Consul, cfg ConsulConfig) *Consul {
	tb.Helper()
	c, err := StartConsulAgent(servers, cfg)
	CloseAfterTest(tb, err, c)
	return c
}

// KubeAPIForTest is ZooKeeperForTest for a Kubernetes API server, and Long: make test builds none.
func KubeAPIForTest(tb testing.TB, cfg KubeAPIConfig) *KubeAPI {
	tb.Helper()
	Long(tb, "a Kubernetes API server")
	return forTest(tb, StartKubeAPI, cfg)
}

// EnsembleForTest is ZooKeeperForTest for an ensemble of n servers. Like all clusters of more than one
// server it is Long.
func EnsembleForTest(tb testing.TB, n int, cfg ZooKeeperConfig) *Ensemble {
	tb.Helper()
	return clusterForTest(tb, StartZooKeeperEnsemble, n, cfg)
}

// EtcdClusterForTest is EnsembleForTest for a cluster of n etcd servers.
func EtcdClusterForTest(tb testing.TB, n int, cfg EtcdConfig) *EtcdCluster {
	tb.Helper()
	return clusterForTest(tb, StartEtcdCluster, n, cfg)
}

// ConsulClusterForTest is EnsembleForTest for a cluster of n Consul servers.
func ConsulClusterForTest(tb testing.TB, n int, cfg ConsulConfig) *ConsulCluster {
	tb.Helper()
	return clusterForTest(tb, StartConsulCluster, n, cfg)
}

func forTest[S closable, C any](tb testing.TB, start func(C) (S, error), cfg C) S {
	tb.Helper()
	s, err := start(cfg)
	CloseAfterTest(tb, err, s)
	return s
}

func clusterForTest[S Member, C any](tb testing.TB, start func(int, C) (*Cluster[S], error), n int, cfg C) *Cluster[S] {
	tb.Helper()
	if n > 1 {
		Long(tb, "several servers")
	}
	c := must.Get(start(n, cfg))(tb)
	CloseAfterTest(tb, nil, c.Members...)
	return c
}

// Long leaves the test to make test-all: make test, which is go test -short, skips it. takes says what the
// test needs.
func Long(tb testing.TB, takes string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("it takes %s: make test-all", takes)
	}
}

// CloseAfterTest closes the servers when the test ends, as ZooKeeperForTest does. It fails the test at once
// if err, the error of their start, is not nil.
func CloseAfterTest[S closable](tb testing.TB, err error, servers ...S) {
	tb.Helper()
	require.NoError(tb, err)
	for _, s := range servers {
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Logf("end of the log of %s at %s:\n%s", s.Name(), s.Addr(), s.LogTail(4096))
			}
			assert.NoError(tb, s.Close(), "close %s", s.Name())
		})
	}
}
