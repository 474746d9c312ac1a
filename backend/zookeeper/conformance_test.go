package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/servertest"
)

const inOrder = "events and answers come over one connection in one order: none can be held while others go on"

func TestConformanceSingle(t *testing.T) {
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	conformance.TestBackend(t, service(t, "zookeeper, single", []string{server.Addr()}, server.Kill, server.Start))
}

func TestConformanceEnsemble(t *testing.T) {
	ensemble := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	stop := func() error {
		var errs []error
		for _, server := range ensemble.Servers {
			errs = append(errs, server.Kill())
		}
		return errors.Join(errs...)
	}
	conformance.TestBackend(t, service(t, "zookeeper, ensemble of 3", ensemble.Addrs(), stop, ensemble.Start))
}

// service makes services on the same servers, each with a root of its own.
func service(t *testing.T, name string, servers []string, stop, start func() error) func(testing.TB) *conformance.Service {
	admin := operator(t, servers...)
	return func(testing.TB) *conformance.Service {
		return &conformance.Service{
			Name: name,
			Root: newRoot(),
			TTL:  6 * time.Second,
			Client: func(t testing.TB) *conformance.Client {
				p := newProcess(t, servers, func(cfg *zookeeper.Config) { cfg.MaxRequest = 64 << 10 })
				return &conformance.Client{
					Backend:     p.backend,
					Suspend:     p.suspend,
					Resume:      p.resume,
					Expire:      p.expire,
					LoseReply:   func(kind backend.OpKind) { p.loseReply(matchKind(kind)) },
					CutReply:    func(kind backend.OpKind) { p.cutReply(matchKind(kind)) },
					LoseRequest: func(kind backend.OpKind) { p.loseRequest(matchKind(kind)) },
				}
			},
			Delete: func(key string) error { return deleteAll(admin, key) },
			Put:    func(key string, value []byte) error { return putAll(admin, key, value) },
			Stop:   stop,
			Start:  start,
			Why:    map[string]string{"HoldWakeups": inOrder},
		}
	}
}
