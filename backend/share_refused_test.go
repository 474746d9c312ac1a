package backend_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// refusing is a backend whose sessions fail the next few calls of Discard with an error, and do nothing.
type refusing struct {
	backend.Backend
	times int
	err   error
}

func (b *refusing) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return backend.Intercept(b.Backend, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if c.Kind == backend.CallDiscard && b.times > 0 {
			b.times--
			return b.err
		}
		return next(ctx)
	}).Open(ctx, o)
}

// An entry that could not be removed exists as long as anybody uses the session, so each Close tries again,
// and returns nil only once the entry is gone.
func TestShareKeepsWhatCouldNotBeDropped(t *testing.T) {
	for name, drop := range map[string]bool{"after a Drop": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				b := &refusing{Backend: service, times: 3, err: backend.ErrDenied}
				shared := backend.Share(b, 0)
				a, other := open(t, shared), open(t, shared)
				e := create(t, a, "/seat")
				if drop {
					assert.ErrorIs(t, a.Discard(t.Context(), e), backend.ErrDenied)
				}
				for b.times > 0 {
					err := a.Close(t.Context())
					require.ErrorIs(t, err, backend.ErrDenied)
					require.ErrorIs(t, err, backend.ErrStanding)
				}
				assert.NoError(t, a.Close(t.Context()))
				assert.False(t, service.Entry("/seat").Exists())
				assert.Equal(t, backend.Live, other.State(), "the session of the other user")
			})
		})
	}
}

// An entry that could not be removed goes with the session, so that there is nothing left to report.
func TestShareForgetsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("c")
		b := &refusing{Backend: client, times: 1, err: backend.ErrDenied}
		shared := backend.Share(b, 0)
		a, other := open(t, shared), open(t, shared)
		create(t, a, "/seat")
		assert.ErrorIs(t, a.Close(t.Context()), backend.ErrStanding)
		client.Expire()
		require.Equal(t, backend.Lost, must.Get(other.AwaitState(t.Context(), backend.Live))(t))
		assert.NoError(t, a.Close(t.Context()), "after the loss of the session")
	})
}
