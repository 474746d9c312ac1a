package servicetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// Conditions tests the function that a backend has for its users' own transactions: translate, which
// returns conditions as the client library has them. holds makes such a transaction, and reports whether it
// was done. asLong says that what translate returned holds as long as the entry exists, with any value.
func Conditions[S ~[]E, E any](t *testing.T, b backend.Backend, dir string, asLong bool,
	translate func(context.Context, *backend.Session, ...backend.Condition) (S, error), holds func(testing.TB, S) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	lasting := backend.OpenOptions{TTL: 30 * time.Second}
	own, other := Open(ctx, t, b, lasting), Open(ctx, t, b, lasting)
	shared := Open(ctx, t, backend.Share(b, lasting.TTL), lasting)
	commit := func(s *backend.Session, op backend.Op) backend.Entry {
		t.Helper()
		return must.Get(s.Commit(ctx, nil, op))(t)[0]
	}
	commit(own, backend.CompareAndSet(dir, nil, 0))
	commit(other, backend.Enqueue(dir, nil)) // so that the others are not the first
	for kind, op := range map[string]backend.Op{
		"enqueued":   backend.Enqueue(dir, nil),
		"exclusive":  backend.CreateEphemeral(dir+"/seat", nil),
		"persistent": backend.CompareAndSet(dir+"/record", nil, 0),
	} {
		for whose, s := range map[string]*backend.Session{"own": own, "shared": shared} {
			t.Run(kind+", "+whose, func(t *testing.T) {
				native := func(of ...backend.Condition) S {
					t.Helper()
					return must.Get(translate(ctx, s, of...))(t)
				}
				// Either translate refuses it, or the service does.
				refused := func(of backend.Condition) {
					t.Helper()
					native, err := translate(ctx, s, of)
					if err != nil {
						require.ErrorIs(t, err, backend.ErrCondition)
						return
					}
					require.False(t, holds(t, native))
				}
				e := commit(s, op)
				exists, unchanged := native(backend.IfExists(e)), native(backend.IfUnchanged(e))
				require.True(t, holds(t, exists))
				require.True(t, holds(t, unchanged))
				require.True(t, holds(t, native(backend.IfExists(e), backend.IfUnchanged(e))))

				changed := commit(other, backend.Update(e, []byte("new")))
				require.True(t, !asLong || holds(t, exists))
				require.False(t, holds(t, unchanged))
				refused(backend.IfUnchanged(e))
				beside := commit(other, backend.CreateEphemeral(dir+"/beside", nil))
				exists, unchanged = native(backend.IfExists(e)), native(backend.IfUnchanged(changed))
				both := native(backend.IfExists(e), backend.IfUnchanged(changed))
				for _, native := range []S{exists, unchanged, both} {
					require.True(t, holds(t, native))
				}

				commit(other, backend.Delete(e))
				for _, native := range []S{exists, unchanged, both} {
					require.False(t, holds(t, native))
				}
				next := commit(s, op) // as the next term's, in the same session
				for _, native := range []S{exists, unchanged, both} {
					require.False(t, holds(t, native))
				}
				refused(backend.IfExists(e))
				commit(s, backend.Delete(next))
				commit(other, backend.Delete(beside))
			})
		}
	}
	t.Run("errors", func(t *testing.T) {
		e := commit(own, backend.Enqueue(dir, nil))
		double := Open(ctx, t, memory.New(memory.Options{}), backend.OpenOptions{})
		for _, foreign := range []*backend.Session{double, nil} {
			require.ErrorContains(t, must.Err(translate(ctx, foreign, backend.IfExists(e))), "not of this package")
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, must.Err(translate(ended, own, backend.IfExists(e))), context.Canceled)
		require.ErrorIs(t, must.Err(translate(ctx, own, backend.IfExists(backend.Entry{Key: "relative", Rev: 1}))), backend.ErrBadKey)
		require.ErrorIs(t, must.Err(translate(ctx, own, backend.IfExists(backend.Entry{Key: dir}))), backend.ErrCondition)
		assert.Empty(t, must.Get(translate(ctx, own))(t))
		require.NoError(t, own.Close(ctx))
		require.ErrorIs(t, must.Err(translate(ctx, own, backend.IfExists(e))), backend.ErrSessionLost)
	})
}
