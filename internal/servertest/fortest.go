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

// EnsembleForTest is ZooKeeperForTest for an ensemble of n servers.
func EnsembleForTest(tb testing.TB, n int, cfg ZooKeeperConfig) *Ensemble {
	tb.Helper()
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

// PostgresForTest is ZooKeeperForTest for a PostgreSQL server.
func PostgresForTest(tb testing.TB, cfg SQLConfig) *Postgres {
	tb.Helper()
	p, err := StartPostgres(cfg)
	closeAfterTest(tb, err, p)
	return p
}

// MariaDBForTest is ZooKeeperForTest for a MariaDB server.
func MariaDBForTest(tb testing.TB, cfg SQLConfig) *MariaDB {
	tb.Helper()
	m, err := StartMariaDB(cfg)
	closeAfterTest(tb, err, m)
	return m
}

// PrometheusForTest is ZooKeeperForTest for a Prometheus server.
func PrometheusForTest(tb testing.TB, cfg PrometheusConfig) *Prometheus {
	tb.Helper()
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
