package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// The request of a CreateEphemeral is lost, and its caller gives up and retries at once: the entry that
// the second call reported is not treated as the first call's leftover.
func TestRetryBesideTheUndoOfTheFirstTry(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	valued := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/valued", []byte("value"), 0))[0].Key
	for where, prefix := range map[string]string{
		"a directory":              f.Dir + "/seat-",
		"a directory with a value": valued + "/seat-",
		"the server's root":        newTop() + "-",
	} {
		t.Run(where, func(t *testing.T) {
			retries, tries := 0, 100
			if testing.Short() {
				tries = 20 // one for each point
			}
			for i := range tries {
				seat := fmt.Sprint(prefix, i)
				ctx, cancel := context.WithCancel(f.Ctx)
				f.ClearRules()
				kind := zktest.MatchKind(backend.OpCreateEphemeral)
				fired := f.DropRequest(func(opcode int32, payload []byte) bool {
					is := kind(opcode, payload)
					if is && i%2 == 0 {
						cancel() // before it can be sent again
					}
					return is
				}, 1)
				first := wait.Later(func() ([]backend.Entry, error) {
					return f.S.Commit(ctx, nil, backend.CreateEphemeral(seat, nil))
				})
				<-fired
				cancel()
				_, err := wait.Returned(f.T, first)
				if err == nil {
					continue // it was sent again before the caller gave up
				}
				if errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrIndeterminate) {
					// The first try was known to have failed, and the next had not begun.
					f.Gone(f.S, seat)
					continue
				}
				require.ErrorIs(t, err, backend.ErrIndeterminate)
				retries++
				time.Sleep(time.Duration(i%20) * 50 * time.Microsecond) // the undo is at another point each time
				made := f.create(f.S, seat)
				time.Sleep(5 * time.Millisecond)
				got := f.Get(f.S, seat)
				require.True(t, got.Same(made), "%+v was reported, there is %+v", made, got)
			}
			require.Positive(t, retries)
		})
	}
}

// A wait for a turn ends with its ctx or the session, and nothing is sent.
func TestWaitingForATurnEnds(t *testing.T) {
	f := setUp(t, nil)
	key := f.Dir + "/record"
	f.Suspend()
	put := func() ([]backend.Entry, error) { return f.S.Commit(f.Ctx, nil, backend.CompareAndSet(key, nil, 0)) }
	first := wait.Later(put)
	ctx, cancel := context.WithTimeout(f.Ctx, 50*time.Millisecond)
	defer cancel()
	_, err := f.S.Commit(ctx, nil, backend.CompareAndSet(key, nil, 0))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waiting := wait.Later(put)
	_ = f.S.Close(ctx) // out of touch
	for _, call := range []<-chan wait.Result[[]backend.Entry]{first, waiting} {
		_, err := wait.Returned(f.T, call)
		require.ErrorIs(t, err, backend.ErrSessionLost)
	}
	f.Resume()
}
