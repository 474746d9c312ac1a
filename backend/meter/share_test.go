package meter_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
)

// Candidates that share a session are told apart by a meter on each one's side of it, and
// the session's own cost by one on the other side.
func TestMeterAndShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := meter.New(memory.New(memory.Options{}), nil)
		shared := backend.Share(below, 0)
		one, two := meter.New(shared, nil), meter.New(shared, nil)
		a, b := open(t, one), open(t, two)
		if a.ID() != b.ID() || len(below.Sessions()) != 1 {
			t.Errorf("sessions %s and %s, %d below; want one", a.ID(), b.ID(), len(below.Sessions()))
		}
		create(t, a, "/a")
		create(t, b, "/b")
		create(t, b, "/c")
		if one.Counts().Commits != 1 || two.Counts().Commits != 2 || below.Counts().Commits != 3 {
			t.Errorf("commits: %d, %d and %d below", one.Counts().Commits, two.Counts().Commits, below.Counts().Commits)
		}
		if limits := one.Limits(); limits != shared.Limits() || one.String() != "memory" {
			t.Errorf("limits %v of %q", limits, one)
		}
	})
}

// What a backend's package has for sessions takes metered ones, and shares of them.
func TestMeterUnwraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		bare := open(t, service)
		for name, b := range map[string]backend.Backend{
			"metered":          meter.New(service, nil),
			"share of metered": backend.Share(meter.New(service, nil), 0),
			"metered share":    meter.New(backend.Share(service, 0), nil),
		} {
			s := open(t, b)
			d := s.Driver()
			if d.ID() != s.ID() || fmt.Sprintf("%T", d) != fmt.Sprintf("%T", bare.Driver()) {
				t.Errorf("%s: in the end there is %T, want %T", name, d, bare.Driver())
			}
		}
	})
}

func TestMeterFailedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		m := meter.New(service, nil)
		service.Stop()
		if s, err := m.Open(t.Context(), backend.OpenOptions{}); !errors.Is(err, backend.ErrUnavailable) || s != nil {
			t.Errorf("open returned %v, %v", s, err)
		}
		if n := len(m.Sessions()); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}
