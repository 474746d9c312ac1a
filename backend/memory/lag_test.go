package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// behind returns a session opened at a server that does not know the latest changes: /p was "old" and is
// "new", /gone is gone, and the oldest of /d is gone, too.
func behind(t *testing.T, svc *Service) (s *session, first, second backend.Entry, catchUp func()) {
	t.Helper()
	ahead := open(t, svc.Client("ahead"))
	for key, value := range map[string]string{"/p": "old", "/gone": "", "/d": ""} {
		require.NoError(t, svc.Put(key, []byte(value)))
	}
	made := must.Get(ahead.Commit(t.Context(), nil, backend.Enqueue("/d", nil), backend.Enqueue("/d", nil)))(t)
	catchUp = svc.Lag()
	require.NoError(t, svc.Put("/p", []byte("new")))
	svc.Delete("/gone")
	require.NoError(t, ahead.Discard(t.Context(), made[0]))
	s = open(t, svc.Client("a"))
	require.True(t, svc.Behind(s.ID()))
	require.False(t, svc.Behind(ahead.ID()))
	require.Equal(t, "new", value(t, ahead, "/p"), "an open session is not set back")
	return s, made[0], made[1], catchUp
}

func value(t *testing.T, s *session, key string) string {
	t.Helper()
	e := must.Get(s.Get(t.Context(), key))(t)
	return string(e.Value)
}

func TestNewSessionIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Options{})
		s, first, second, catchUp := behind(t, svc)
		for range 2 {
			require.Equal(t, "old", value(t, s, "/p"))
			require.Empty(t, value(t, s, "/gone"))
			e, strangers, err := s.Survey(t.Context(), "/d", nil)
			require.NoError(t, err)
			require.True(t, e.Exists())
			require.Equal(t, []string{first.Key, second.Key}, strangers)
			require.True(t, must.Get(s.Predecessor(t.Context(), second))(t).Same(first))
			now := must.Get(s.Await(t.Context(), backend.Unknown(first.Key)))(t)
			require.True(t, now[0].Same(first))
			time.Sleep(time.Minute)
		}
		l := must.Get(s.List(t.Context(), "/d"))(t)
		require.Equal(t, []string{first.Key, second.Key}, l.Keys)

		// It learns of the changes that it has missed, and of new ones, when it has caught up.
		heard := make(chan time.Time, 2)
		go func() {
			if now, err := s.Await(context.Background(), first); err == nil && !now[0].Exists() {
				heard <- time.Now()
			}
		}()
		go func() {
			if l, err := s.AwaitList(context.Background(), l); err == nil && len(l.Keys) == 1 {
				heard <- time.Now()
			}
		}()
		svc.Delete("/p")
		time.Sleep(time.Minute)
		require.Equal(t, "old", value(t, s, "/p"))
		began := time.Now()
		catchUp()
		require.Equal(t, began, <-heard)
		require.Equal(t, began, <-heard)
		require.False(t, svc.Behind(s.ID()))
		require.ErrorIs(t, must.Err(s.Get(t.Context(), "/p")), backend.ErrNoEntry)
		other := open(t, svc.Client("b"))
		require.False(t, svc.Behind(other.ID()))
		catchUp()
		require.Zero(t, svc.Stats().Watches)
	})
}

// A session's write is decided by the current state, which the session reads from then on.
func TestWriteCatchesUp(t *testing.T) {
	for name, write := range map[string]func(*session, backend.Entry) error{
		"done": func(s *session, _ backend.Entry) error {
			_, err := s.Commit(context.Background(), nil, backend.CompareAndSet("/q", nil, 0))
			return err
		},
		"refused": func(s *session, first backend.Entry) error {
			_, err := s.Commit(context.Background(), []backend.Condition{backend.IfExists(first)})
			if err == nil {
				return context.Canceled
			}
			return nil
		},
		"dropped": func(s *session, first backend.Entry) error { return s.Discard(context.Background(), first) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := New(Options{})
				s, first, _, catchUp := behind(t, svc)
				heard := make(chan bool, 1)
				go func() {
					now, err := s.Await(context.Background(), first)
					heard <- err == nil && !now[0].Exists()
				}()
				synctest.Wait()
				other := open(t, svc.Client("b"))
				require.NoError(t, write(s, first))
				require.True(t, <-heard)
				require.Equal(t, "new", value(t, s, "/p"))
				require.Equal(t, "old", value(t, other, "/p"), "each catches up by itself")
				catchUp()
				require.Equal(t, "new", value(t, other, "/p"))
			})
		})
	}
}

// Servers may be behind by more or by less.
func TestBehindByMoreOrLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Options{})
		_, _, _, more := behind(t, svc)
		less := svc.Lag()
		svc.Delete("/p")
		s := open(t, svc.Client("b"))
		more()
		require.Equal(t, "new", value(t, s, "/p"))
		less()
		require.ErrorIs(t, must.Err(s.Get(t.Context(), "/p")), backend.ErrNoEntry)
	})
}
