package backend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// Turns that are given back late are waited for, however many stand in line. One that nobody
// gives back is not: what it stands for is not settled, and says nothing of when it will be.
func TestTurnsAreNotWaitedForWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		var turns backend.Turns
		ops := []backend.Op{backend.Create("/a", nil), backend.Put("/b", nil, 0)}
		for range 5 {
			go func() {
				give, err := turns.Take(t.Context(), nil, patience, ops)
				if assert.NoError(t, err) {
					time.Sleep(patience - time.Second)
					give()
				}
			}()
		}
		time.Sleep(5 * patience)
		_, err := turns.Take(t.Context(), nil, patience, ops[1:])
		require.NoError(t, err, "and it is never given back")
		began := time.Now()
		_, err = turns.Take(t.Context(), nil, patience, ops)
		require.ErrorIs(t, err, backend.ErrUnavailable)
		require.ErrorContains(t, err, "/b")
		assert.Equal(t, patience, time.Since(began))
		give, err := turns.Take(t.Context(), nil, patience, ops[:1])
		require.NoError(t, err, "the first key was given back")
		give()
	})
}
