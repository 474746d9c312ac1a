package consul_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
)

// ttl is the shortest that Consul's servers take.
const ttl = 10 * time.Second

func TestConformanceSingle(t *testing.T) {
	conformance.TestBackendParallel(t, consultest.Single(t).Service(ttl, consul.Config{}))
}

func TestConformanceCluster(t *testing.T) {
	conformance.TestBackendParallel(t, consultest.ClusterOnNetwork(t).Service(ttl, consul.Config{}))
}
