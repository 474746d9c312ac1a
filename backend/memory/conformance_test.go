package memory_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/memtest"
)

const ttl = 10 * time.Second

func TestConformance(t *testing.T) {
	report := conformance.TestBackend(t, memtest.Service(ttl))
	if n := report.Count(conformance.NotApplicable); n > 0 {
		t.Errorf("%d rules were not tried, but memory can do everything", n)
	}
}

// A shared session keeps the contract, too.
func TestConformanceShared(t *testing.T) {
	conformance.TestBackend(t, memtest.Shared(memtest.Service(ttl)))
}

// So does a metered one, and one that is both.
func TestConformanceMetered(t *testing.T) {
	report := conformance.TestBackend(t, memtest.Metered(memtest.Service(ttl)))
	if n := report.Count(conformance.NotApplicable); n > 0 {
		t.Errorf("%d rules were not tried, but memory can do everything", n)
	}
}

func TestConformanceMeteredShare(t *testing.T) {
	conformance.TestBackend(t, memtest.Metered(memtest.Shared(memtest.Service(ttl))))
}

func TestConformanceShareOfMetered(t *testing.T) {
	conformance.TestBackend(t, memtest.Shared(memtest.Metered(memtest.Service(ttl))))
}
