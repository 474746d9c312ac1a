//go:build unix

package kubernetes_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/strategy/fair"
)

// Both suites, on a real API server, by the client that Connect makes.
func TestAPIServer(t *testing.T) {
	api := servertest.KubeAPIForTest(t, servertest.KubeAPIConfig{NoSync: true})
	var leases atomic.Int32
	service := func(t testing.TB) *conformance.Service {
		name := fmt.Sprintf("lease-%d", leases.Add(1))
		return serviceOn(name, func(t testing.TB) (client.LeaseInterface, func()) {
			cfg := must.Get(kubernetes.Connect(&rest.Config{
				Host: api.URL(), BearerToken: api.Admin, TLSClientConfig: rest.TLSClientConfig{CAFile: api.CAFile},
			}, "default", name))(t)
			return cfg.Leases, cfg.Close
		})
	}
	t.Run("backend", func(t *testing.T) { conformance.TestBackendParallel(t, service) })
	t.Run("election", func(t *testing.T) {
		conformance.TestElection(t, conformance.ElectionConfig{Service: service, Strategy: fair.Strategy{}, Traits: conformance.Traits{Ordered: true, StepsAside: true, Lists: true}})
	})
	require.True(t, api.Running())
}
