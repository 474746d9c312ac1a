package consul_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// Session timeouts. The shortest that Consul's servers take is for sessions of which the test waits for
// heartbeats, or for the end. All others have one that a machine which stalls does not overrun.
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
