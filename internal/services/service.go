package services

import (
	"fmt"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/servertest"
)

// A Service is a coordination service that there is a backend for, and servers to try it on.
type Service struct {
	Name   string // of its package in backend; options of the tools, and SERVICE= of make, have it, too
	Scheme string // of its URLs

	// Timeouts are the parameters of a URL that say how long a dead client's session lives, one for each
	// kind of sessions. With the last one the service is the quickest to end it.
	Timeouts []string

	// Start starts a server. It keeps its data only as long as the machine runs.
	Start func() (Server, error)
}

// All are the services. A backend is registered here: tests on each service, the tools and the completion of
// the command take it from this list.
var All = []Service{ZooKeeper, Etcd, Consul}

var (
	ZooKeeper = Service{"zookeeper", "zk", []string{"timeout"}, starter(servertest.StartZooKeeper, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})}
	Etcd      = Service{"etcd", "etcd", []string{"timeout"}, starter(servertest.StartEtcd, servertest.EtcdConfig{NoSync: true})}
	Consul    = Service{"consul", "consul", []string{"timeout", "check"}, starter(servertest.StartConsul, servertest.ConsulConfig{NoSync: true})}
)

func starter[S Server, C any](start func(C) (S, error), cfg C) func() (Server, error) {
	return func() (Server, error) { return start(cfg) }
}

// URL returns the URL of the server at an address, with the sessions that end soonest and this timeout.
func (s Service) URL(addr string, timeout time.Duration) string {
	return fmt.Sprintf("%s://%s?%s=%v", s.Scheme, addr, s.Timeouts[len(s.Timeouts)-1], timeout)
}

// ForTest starts a server, and closes it when the test ends.
func (s Service) ForTest(tb testing.TB) Server {
	tb.Helper()
	server, err := s.Start()
	servertest.CloseAfterTest(tb, err, server)
	return server
}

// OnEach runs a test on each service. The test says whether it runs beside the others.
func OnEach(t *testing.T, test func(t *testing.T, s Service)) {
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

// Schemes returns the schemes of all services.
func Schemes() (all []string) {
	for _, s := range All {
		all = append(all, s.Scheme)
	}
	return all
}
