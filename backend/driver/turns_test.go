package driver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// Turns that are given back late are waited for, however many are in line. A turn that is never given back
// is not: its commit is not settled, and nothing says when it will be.
func TestTurnsAreNotWaitedForWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		l := newLife(t)
		ops := []backend.Op{backend.CreateEphemeral("/a", nil), backend.CompareAndSet("/b", nil, 0)}
		for range 5 {
			go func() {
				give, err := l.TakeTurn(t.Context(), patience, ops)
				if assert.NoError(t, err) {
					time.Sleep(patience - time.Second)
					give()
				}
			}()
		}
		time.Sleep(5 * patience)
		require.NoError(t, must.Err(l.TakeTurn(t.Context(), patience, ops[1:])), "and it is never given back")
		began := time.Now()
		_, err := l.TakeTurn(t.Context(), patience, ops)
		require.ErrorIs(t, err, backend.ErrUnavailable)
		require.ErrorContains(t, err, "/b")
		assert.Equal(t, patience, time.Since(began))
		give, err := l.TakeTurn(t.Context(), patience, ops[:1])
		require.NoError(t, err, "the first key was given back")
		give()
	})
}

// A commit waits for earlier ones that may still write to one of its keys, and for no others.
func TestDoubtsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		l := newLife(t)
		e, next := backend.Entry{Key: "/a", Rev: 1}, backend.Entry{Key: "/a", Rev: 2}
		settled := l.Doubt([]backend.Op{backend.Enqueue("/d", nil), backend.Update(e, nil)})
		for _, op := range []backend.Op{backend.Delete(e), backend.CompareAndSet("/b", nil, 0), backend.Enqueue("/d", nil), backend.CompareAndSet("/d", nil, 0)} {
			require.NoError(t, l.AwaitSettled(t.Context(), 0, []backend.Op{op}), "%v %s", op.Kind, op.Key)
		}
		began := time.Now()
		for i, op := range []backend.Op{backend.Update(e, nil), backend.CompareAndSet("/a", nil, 1), backend.Delete(next)} {
			_, err := l.TakeTurn(t.Context(), patience, []backend.Op{backend.CompareAndSet("/b", nil, 0), op})
			require.ErrorIs(t, err, backend.ErrUnavailable, "%v %s", op.Kind, op.Key)
			require.ErrorContains(t, err, "commit on /a", "the key that both write")
			assert.Equal(t, time.Duration(i+1)*patience, time.Since(began))
		}
		time.AfterFunc(time.Second, settled)
		require.NoError(t, l.AwaitSettled(t.Context(), patience, []backend.Op{backend.Update(e, nil)}))
		assert.Equal(t, 3*patience+time.Second, time.Since(began))
	})
}

// A commit that waits for its turn while the one before is given up also waits until that one is settled.
func TestGivenUpBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		l := newLife(t)
		ops := []backend.Op{backend.CreateEphemeral("/a", nil)}
		give := must.Get(l.TakeTurn(t.Context(), patience, ops))(t)
		began := time.Now()
		for range 3 {
			go func() {
				give, err := l.TakeTurn(t.Context(), patience, ops)
				if assert.NoError(t, err) {
					assert.Equal(t, patience/2, time.Since(began))
					give()
				}
			}()
		}
		synctest.Wait()
		settled := l.Doubt(ops)
		give()
		time.Sleep(patience / 2)
		settled()
		synctest.Wait()
	})
}
