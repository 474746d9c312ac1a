package memory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/conformance/memtest"
)

const ttl = 10 * time.Second

func TestConformance(t *testing.T) {
	triesAll(t, conformance.TestBackend(t, memtest.Service(ttl)))
}

func TestConformanceLate(t *testing.T) {
	triesAll(t, conformance.TestBackend(t, memtest.Late(ttl)))
}

// triesAll checks that memory can do everything except be several servers, be slow, or wait in Close.
func triesAll(t *testing.T, report conformance.Report) {
	t.Helper()
	cannot := []string{"service/member-cut-off", "service/member-frozen", "service/member-killed", "service/no-quorum", "session/close-cut", "session/slow-replies", "session/late-requests", "errors/unanswered"}
	for _, r := range report.Results {
		assert.True(t, r.Outcome != conformance.NotApplicable || slices.Contains(cannot, r.Rule), "%s was not tried: %s", r.Rule, r.Reason)
	}
}

// A shared session keeps the contract, too.
func TestConformanceShared(t *testing.T) {
	conformance.TestBackend(t, memtest.Shared(memtest.Service(ttl)))
}

// So does a metered one, and one that is both.
func TestConformanceMetered(t *testing.T) {
	triesAll(t, conformance.TestBackend(t, memtest.Metered(memtest.Service(ttl))))
}

func TestConformanceMeteredShare(t *testing.T) {
	conformance.TestBackend(t, memtest.Metered(memtest.Shared(memtest.Late(ttl))))
}

func TestConformanceShareOfMetered(t *testing.T) {
	conformance.TestBackend(t, memtest.Shared(memtest.Metered(memtest.Service(ttl))))
}
