package driver_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

func TestStrays(t *testing.T) {
	t.Parallel()
	create := []backend.Op{backend.CreateEphemeral("/seat", nil)}
	seat := func(rev uint64) backend.Entry { return backend.Entry{Key: "/seat", Rev: rev, Session: "me"} }
	commit := func(m *driver.Strays, e backend.Entry) {
		over := m.Begin(create)
		m.Made(create, []backend.Entry{e})
		over()
	}
	var m driver.Strays
	assert.False(t, m.Is(seat(3), false), "the user's: no commit has made an entry there")
	assert.True(t, m.Is(backend.Entry{Key: "/e-1", Rev: 3}, true), "nobody else enqueues")
	commit(&m, seat(5))
	assert.False(t, m.Is(seat(5), false))
	assert.False(t, m.Is(seat(0), false), "any")
	assert.True(t, m.Is(seat(3), false), "restored")
	assert.False(t, m.Claim(t.Context(), seat(3)), "while a younger one counts")
	assert.False(t, m.Is(seat(5), false), "which stays")
	assert.True(t, m.Gone("/seat", 5))
	assert.False(t, m.Gone("/seat", 5), "no news")
	assert.True(t, m.Is(seat(3), false))
	assert.True(t, m.Claim(t.Context(), seat(3)))
	assert.False(t, m.Claim(t.Context(), seat(3)), "twice")
	assert.True(t, m.Gone("/seat", 3))
	commit(&m, seat(9))
	assert.False(t, m.Claim(t.Context(), seat(5)), "a late answer")
	assert.False(t, m.Is(seat(9), false))
	m.Made([]backend.Op{backend.Delete(seat(9))}, []backend.Entry{{Key: "/seat"}})
	assert.True(t, m.Is(seat(9), false))
}

// A commit that is not over may have made what was seen.
func TestStraysWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m driver.Strays
		ops := []backend.Op{backend.Enqueue("/dir", nil)}
		e := backend.Entry{Key: "/dir/e-1", Rev: 4, Session: "me"}
		over := m.Begin(ops)
		claimed := make(chan bool, 1)
		go func() { claimed <- m.Claim(t.Context(), e) }()
		synctest.Wait()
		assert.Empty(t, claimed)
		m.Made(ops, []backend.Entry{e})
		over()
		assert.False(t, <-claimed)

		defer m.Begin(ops)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.False(t, m.Claim(ctx, backend.Entry{Key: "/dir/e-2", Rev: 5, Session: "me"}))
	})
}
