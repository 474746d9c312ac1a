package etcd_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
)

const ttl = 10 * time.Second

func TestConformanceSingle(t *testing.T) {
	conformance.TestBackendParallel(t, etcdtest.Single(t).Service(ttl))
}

func TestConformanceCluster(t *testing.T) {
	conformance.TestBackendParallel(t, etcdtest.ClusterOnNetwork(t).Service(ttl))
}
