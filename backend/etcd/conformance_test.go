package etcd_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
)

// On a cluster three servers have a part in each write.
const ttl, membersTTL = 3 * time.Second, 6 * time.Second

func TestConformanceSingle(t *testing.T) {
	t.Parallel()
	conformance.TestBackend(t, etcdtest.Single(t).Service(ttl))
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	conformance.TestBackend(t, etcdtest.Cluster(t).Service(membersTTL))
}
