package zookeeper_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/zktest"
)

const ttl = 6 * time.Second

func TestConformanceSingle(t *testing.T) {
	conformance.TestBackend(t, zktest.Single(t).Service(ttl))
}

func TestConformanceEnsemble(t *testing.T) {
	conformance.TestBackend(t, zktest.Ensemble(t).Service(ttl))
}
