package servertest

import "testing"

// ZooKeeperForTest starts a server that is closed when the test ends. If it
// cannot be started, not being installed included, the test fails at once. If
// the test fails, the end of the server's log is added to the test's log.
func ZooKeeperForTest(tb testing.TB, cfg ZooKeeperConfig) *ZooKeeper {
	tb.Helper()
	z, err := StartZooKeeper(cfg)
	closeAfterTest(tb, err, z)
	return z
}

// Long leaves the test to make test-all, as it takes what make test does without: go test -short
// skips it.
func Long(tb testing.TB, takes string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("it takes %s: make test-all", takes)
	}
}

// EnsembleForTest is ZooKeeperForTest for an ensemble of n servers. It is Long, as all clusters are.
func EnsembleForTest(tb testing.TB, n int, cfg ZooKeeperConfig) *Ensemble {
	tb.Helper()
	Long(tb, "several servers")
	e, err := StartZooKeeperEnsemble(n, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	closeAfterTest(tb, nil, e.Members...)
	return e
}

// EtcdForTest is ZooKeeperForTest for an etcd server.
func EtcdForTest(tb testing.TB, cfg EtcdConfig) *Etcd {
	tb.Helper()
	e, err := StartEtcd(cfg)
	closeAfterTest(tb, err, e)
	return e
}

// EtcdClusterForTest is ZooKeeperForTest for a cluster of n etcd servers.
func EtcdClusterForTest(tb testing.TB, n int, cfg EtcdConfig) *EtcdCluster {
	tb.Helper()
	Long(tb, "several servers")
	c, err := StartEtcdCluster(n, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	closeAfterTest(tb, nil, c.Members...)
	return c
}

// ConsulForTest is ZooKeeperForTest for a Consul server.
func ConsulForTest(tb testing.TB, cfg ConsulConfig) *Consul {
	tb.Helper()
	c, err := StartConsul(cfg)
	closeAfterTest(tb, err, c)
	return c
}

// ConsulClusterForTest is ZooKeeperForTest for a cluster of n Consul servers.
func ConsulClusterForTest(tb testing.TB, n int, cfg ConsulConfig) *ConsulCluster {
	tb.Helper()
	Long(tb, "several servers")
	c, err := StartConsulCluster(n, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	closeAfterTest(tb, nil, c.Members...)
	return c
}

// ConsulAgentForTest is ZooKeeperForTest for a Consul client agent.
func ConsulAgentForTest(tb testing.TB, servers []*Consul, cfg ConsulConfig) *Consul {
	tb.Helper()
	c, err := StartConsulAgent(servers, cfg)
	closeAfterTest(tb, err, c)
	return c
}

// PostgresForTest is ZooKeeperForTest for a PostgreSQL server. It is Long.
func PostgresForTest(tb testing.TB, cfg SQLConfig) *Postgres {
	tb.Helper()
	Long(tb, "PostgreSQL")
	p, err := StartPostgres(cfg)
	closeAfterTest(tb, err, p)
	return p
}

// MariaDBForTest is ZooKeeperForTest for a MariaDB server. It is Long.
func MariaDBForTest(tb testing.TB, cfg SQLConfig) *MariaDB {
	tb.Helper()
	Long(tb, "MariaDB")
	m, err := StartMariaDB(cfg)
	closeAfterTest(tb, err, m)
	return m
}

// PrometheusForTest is ZooKeeperForTest for a Prometheus server. It is Long.
func PrometheusForTest(tb testing.TB, cfg PrometheusConfig) *Prometheus {
	tb.Helper()
	Long(tb, "Prometheus")
	p, err := StartPrometheus(cfg)
	closeAfterTest(tb, err, p)
	return p
}

// closeAfterTest closes the servers when the test ends, if they were started.
func closeAfterTest[S closable](tb testing.TB, err error, servers ...S) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range servers {
		tb.Cleanup(func() { closeInTest(tb, s) })
	}
}

func closeInTest(tb testing.TB, s closable) {
	if tb.Failed() {
		tb.Logf("end of the log of %s at %s:\n%s", s.Name(), s.Addr(), s.LogTail(4096))
	}
	if err := s.Close(); err != nil {
		tb.Errorf("close %s: %v", s.Name(), err)
	}
}
