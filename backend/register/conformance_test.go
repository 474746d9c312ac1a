package register

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/strategies"
)

const ttl = 10 * time.Second

func TestConformance(t *testing.T) { conformance.TestBackend(t, service(ttl, true)) }

func TestConformancePolling(t *testing.T) { conformance.TestBackend(t, service(ttl, false)) }

// Each strategy's election, on an object; with -short, one that waits for a predecessor and one that races.
func TestElections(t *testing.T) {
	for _, cfg := range strategies.All() {
		if name := cfg.Strategy.Name(); testing.Short() && name != "fair" && name != "kafka" {
			continue
		}
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg.Service = service(ttl, true)
			conformance.TestElection(t, cfg)
		})
	}
}
