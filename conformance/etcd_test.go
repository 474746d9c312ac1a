package conformance_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
)

const etcdTTL = 3 * time.Second

func TestElectionOnEtcd(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = etcdtest.Single(t).Service(etcdTTL)
			appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised[cfg.Strategy.Name()])
		})
	}
}

func TestElectionOnEtcdCluster(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = etcdtest.Cluster(t).Service(etcdTTL)
			appliesAll(t, conformance.TestElection(t, cfg), notPromised[cfg.Strategy.Name()])
		})
	}
}
