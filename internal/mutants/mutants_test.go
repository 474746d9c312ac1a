package mutants

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/memtest"
	"github.com/elector-go/elector/strategy/fair"
)

func TestOne(t *testing.T) {
	m, _ := Named(os.Getenv("M"))
	newService := memtest.Service(10 * time.Second)
	svc := func(tb testing.TB) *conformance.Service {
		s := newService(tb)
		client := s.Client
		s.Client = func(tb testing.TB) *conformance.Client {
			c := client(tb)
			c.Backend = m.Backend(c.Backend)
			return c
		}
		return s
	}
	_ = strconv.Itoa
	conformance.TestBackend(t, svc)
	conformance.TestElection(t, conformance.ElectionConfig{
		Service: svc, Strategy: m.Strategy(fair.New()), Ordered: true,
		New: func(_ *conformance.Client, cfg elector.Config) (elector.Elector, error) { return m.New(cfg) },
	})
}
