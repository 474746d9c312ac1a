package consul_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// Session timeouts. Tests that wait for heartbeats, or for a session's end, use ttl, the shortest that
// Consul's servers accept. All others use lasting, which a machine that stalls does not exceed.
const (
	ttl     = 10 * time.Second
	lasting = 30 * time.Second
)

func TestConformanceSingle(t *testing.T) {
	servertest.Long(t, "two minutes; TestConformanceSingleChecked has sessions with a check besides, and internal/elections has these")
	conformance.TestBackendParallel(t, consultest.Single(t).Service(ttl, consul.Config{}))
}

func TestConformanceSingleChecked(t *testing.T) {
	conformance.TestBackendParallel(t, consultest.Single(t).Service(check, consul.Config{Check: check}))
}

func TestConformanceCluster(t *testing.T) {
	conformance.TestBackendParallel(t, consultest.ClusterOnNetwork(t).Service(ttl, consul.Config{}))
}
