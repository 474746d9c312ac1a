package zookeeper_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/zktest"
)

// A restarted server takes seconds to come back, on a busy machine half of these timeouts, and three
// servers take longer.
const (
	ttl         = 10 * time.Second
	ensembleTTL = 15 * time.Second
)

func TestConformanceSingle(t *testing.T) {
	conformance.TestBackendParallel(t, zktest.Single(t).Service(ttl))
}

func TestConformanceEnsemble(t *testing.T) {
	conformance.TestBackendParallel(t, zktest.EnsembleOnNetwork(t).Service(ensembleTTL))
}
