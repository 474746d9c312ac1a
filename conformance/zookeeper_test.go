package conformance_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/zktest"
)

const zooKeeperTTL = 2 * time.Second

// notOnZooKeeper are the rules that need notices to be held while all else goes on,
// and the one about a limit that it does not have.
var notOnZooKeeper = []string{"cancel/handover", "data/deleted-at-handover", "loss/expires-at-handover", "fence/too-many"}

func TestElectionOnZooKeeper(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = zktest.Single(t).Service(zooKeeperTTL)
			appliesAll(t, conformance.TestElection(t, cfg), oneServer, notOnZooKeeper, notPromised[cfg.Strategy.Name()])
		})
	}
}

func TestElectionOnZooKeeperEnsemble(t *testing.T) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = zktest.Ensemble(t).Service(zooKeeperTTL)
			appliesAll(t, conformance.TestElection(t, cfg), notOnZooKeeper, notPromised[cfg.Strategy.Name()])
		})
	}
}
