package servicetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// Open opens a session and closes it when the test ends.
func Open(ctx context.Context, t testing.TB, b backend.Backend, o backend.OpenOptions) *backend.Session {
	t.Helper()
	s := must.Get(b.Open(ctx, o))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // tests that check this error close it themselves
	})
	return s
}

// AwaitState waits until a session is in a state. It fails if the session is Lost, unless that is wanted.
func AwaitState(ctx context.Context, t testing.TB, s *backend.Session, want backend.State) {
	t.Helper()
	for state := s.State(); state != want; {
		require.NotEqual(t, backend.Lost, state)
		state = must.Get(s.AwaitState(ctx, state))(t)
	}
}
