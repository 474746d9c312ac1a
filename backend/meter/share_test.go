package meter_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
)

// A meter above Share counts for one candidate that shares the session, and a meter below it for the
// session.
func TestMeterAndShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := meter.New(memory.New(memory.Options{}), nil)
		shared := backend.Share(below, 0)
		one, two := meter.New(shared, nil), meter.New(shared, nil)
		a, b := open(t, one), open(t, two)
		assert.Equal(t, a.ID(), b.ID())
		assert.Len(t, below.Sessions(), 1)
		create(t, a, "/a")
		create(t, b, "/b")
		create(t, b, "/c")
		assert.Equal(t, []int{1, 2, 3}, []int{one.Counts().Commits, two.Counts().Commits, below.Counts().Commits})
		assert.Equal(t, shared.Limits(), one.Limits())
		assert.Equal(t, "memory", one.String())
	})
}

// Functions of a backend's package that take a session take metered ones, and shares of them.
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
			assert.Equal(t, s.ID(), s.Driver().ID(), name)
			assert.IsType(t, bare.Driver(), s.Driver(), name)
		}
	})
}

func TestMeterFailedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		m := meter.New(service, nil)
		service.Stop()
		s, err := m.Open(t.Context(), backend.OpenOptions{})
		assert.ErrorIs(t, err, backend.ErrUnavailable)
		assert.Nil(t, s)
		assert.Empty(t, m.Sessions())
	})
}
