package backend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// refusing is a backend whose sessions fail the next few calls of Discard with an error, and
// do nothing of what was asked.
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

// An entry that could not be removed stands as long as anybody uses the session. So each
// Close tries again, and says nil only once the entry is gone.
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
					if err := a.Discard(t.Context(), e); !errors.Is(err, backend.ErrDenied) {
						t.Errorf("Drop: %v, want ErrDenied", err)
					}
				}
				for b.times > 0 {
					err := a.Close(t.Context())
					if !errors.Is(err, backend.ErrDenied) || !errors.Is(err, backend.ErrStanding) {
						t.Fatalf("Close with an entry that stands: %v, want ErrDenied and ErrStanding", err)
					}
				}
				if err := a.Close(t.Context()); err != nil || service.Entry("/seat").Exists() {
					t.Errorf("Close: %v, entry %+v; want nil, and none", err, service.Entry("/seat"))
				}
				if other.State() != backend.Live {
					t.Error("the session of the other user is over")
				}
			})
		})
	}
}

// What stands goes with the session at the latest. Then there is nothing left to report.
func TestShareForgetsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("c")
		b := &refusing{Backend: client, times: 1, err: backend.ErrDenied}
		shared := backend.Share(b, 0)
		a, other := open(t, shared), open(t, shared)
		create(t, a, "/seat")
		if err := a.Close(t.Context()); !errors.Is(err, backend.ErrStanding) {
			t.Errorf("Close with an entry that stands: %v, want ErrStanding", err)
		}
		client.Expire()
		if state, err := other.AwaitState(t.Context(), backend.Live); state != backend.Lost || err != nil {
			t.Fatalf("state %v, %v; want lost", state, err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Errorf("Close after the loss of the session: %v", err)
		}
	})
}
