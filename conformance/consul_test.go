package conformance_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
)

// consulTTL is the shortest that Consul's servers take, which end the session at up
// to twice that.
const consulTTL = 10 * time.Second

func TestElectionOnConsul(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = consultest.Single(t).Service(consulTTL, consul.Config{})
			appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised[cfg.Strategy.Name()])
		})
	}
}

func TestElectionOnConsulCluster(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = consultest.Cluster(t).Service(consulTTL, consul.Config{})
			appliesAll(t, conformance.TestElection(t, cfg), notPromised[cfg.Strategy.Name()])
		})
	}
}
