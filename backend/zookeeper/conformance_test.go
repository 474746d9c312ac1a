package zookeeper_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/zktest"
)

// An ensemble, of three Java processes, needs longer to come back after a restart.
const ttl, ensembleTTL = 6 * time.Second, 10 * time.Second

func TestConformanceSingle(t *testing.T) {
	t.Parallel()
	conformance.TestBackend(t, zktest.Single(t).Service(ttl))
}

func TestConformanceEnsemble(t *testing.T) {
	t.Parallel()
	conformance.TestBackend(t, zktest.Ensemble(t).Service(ensembleTTL))
}
