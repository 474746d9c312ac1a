package conformance

import (
	"slices"
	"testing"
)

// TestBackend tries every rule of package backend on a service, each on one that
// newService makes for it, with a Root of its own; the server behind may be the
// same. newService is called once more before, to see what kind of service it is.
//
// Broken rules fail subtests of t that bear the rules' names. The report is logged
// and returned.
//
// The rule soak/links measures the heap of the process. In a package with tests that run in
// parallel use [TestBackendParallel].
func TestBackend(t *testing.T, newService func(t testing.TB) *Service) Report {
	return testBackend(t, newService, nil)
}

// TestBackendParallel is TestBackend beside other parallel tests. It calls t.Parallel, which t
// must not have done before, once the rule that measures the heap has been tried.
func TestBackendParallel(t *testing.T, newService func(t testing.TB) *Service) Report {
	return testBackend(t, newService, t.Parallel)
}

func testBackend(t *testing.T, newService func(t testing.TB) *Service, parallel func()) Report {
	return tryRules(t, newService, slices.Concat(
		sessionRules(), suspendRules(), refusedRules(), writeRules(), commitRules(), valueRules(), guardRules(),
		lostRules(), doubtRules(), lateRules(), readRules(), awaitRules(), listRules(), serviceRules(), soakRules(),
	), parallel)
}
