package memory_test

import (
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance"
)

func TestConformance(t *testing.T) {
	report := conformance.TestBackend(t, newService(func(b backend.Backend) backend.Backend { return b }))
	if n := report.Count(conformance.NotApplicable); n > 0 {
		t.Errorf("%d rules were not tried, but memory can do everything", n)
	}
}

// A shared session keeps the contract, too.
func TestConformanceShared(t *testing.T) {
	conformance.TestBackend(t, newService(func(b backend.Backend) backend.Backend { return backend.Share(b, ttl) }))
}

const ttl = 10 * time.Second

// The limits of a commit. They are those of real services, and in nobody's way.
const (
	maxOps   = 128
	maxBytes = 1 << 20
)

// newService makes services whose clients' backends are wrapped.
func newService(wrap func(backend.Backend) backend.Backend) func(t testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		s := memory.New(memory.Options{MaxOps: maxOps, MaxBytes: maxBytes})
		return &conformance.Service{
			Name:    "memory",
			Root:    "/conformance/x7f3",
			TTL:     ttl,
			Virtual: true,
			Client:  func(testing.TB) *conformance.Client { return newClient(s.Client("process"), wrap) },
			Delete:  func(key string) error { s.Delete(key); return nil },
			Put:     s.Put,
			Stop:    func() error { s.Stop(); return nil },
			Start:   func() error { s.Start(); return nil },

			MaxOps:   maxOps,
			MaxBytes: maxBytes,
		}
	}
}

func newClient(c *memory.Client, wrap func(backend.Backend) backend.Backend) *conformance.Client {
	return &conformance.Client{
		Backend:     wrap(c),
		Suspend:     c.Suspend,
		Resume:      c.Resume,
		Expire:      c.Expire,
		LoseReply:   func(kind backend.OpKind) { c.LoseReply(memory.Kind(kind)) },
		CutReply:    func(kind backend.OpKind) { c.CutReply(memory.Kind(kind)) },
		LoseRequest: func(kind backend.OpKind) { c.LoseRequest(memory.Kind(kind)) },
		HoldWakeups: c.HoldWakeups,
	}
}
