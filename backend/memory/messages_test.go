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

// each makes every message take d.
func each(d time.Duration) Options {
	return Options{Latency: func() time.Duration { return d }}
}

func TestMessagesTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(each(time.Second))
		began := time.Now()
		takes := func(d time.Duration) {
			t.Helper()
			require.Equal(t, d, time.Since(began))
			began = time.Now()
		}
		s := open(t, svc.Client("a"))
		takes(2 * time.Second)
		require.Equal(t, 6100*time.Millisecond, time.Until(s.Deadline()), "the window begins when the request is sent")
		e := create(t, s, "/seat")
		takes(2 * time.Second)
		must.Get(s.Get(t.Context(), "/seat"))(t)
		takes(2 * time.Second)
		must.Get(s.List(t.Context(), "/seats"))(t)
		takes(2 * time.Second)
		must.Get(s.Await(t.Context(), backend.Unknown("/seat")))(t)
		takes(2 * time.Second)

		other := open(t, svc.Client("b"))
		takes(2 * time.Second)
		noticed := make(chan time.Time, 1)
		go func() {
			now, err := other.Await(context.Background(), e)
			if err == nil && !now[0].Exists() {
				noticed <- time.Now()
			}
		}()
		time.Sleep(time.Minute)
		began = time.Now()
		require.NoError(t, s.Discard(t.Context(), e))
		takes(2 * time.Second)
		require.Equal(t, time.Now(), <-noticed, "the notice leaves when the answer does")
		require.NoError(t, s.Close(t.Context()))
		takes(2 * time.Second)
	})
}

// A read returns the state at the moment when its request arrives.
func TestAnswersAreOld(t *testing.T) {
	alone(t, each(time.Second), func(t *testing.T, svc *Service, _ *Client, s *session) {
		require.NoError(t, svc.Put("/p", []byte("1")))
		time.AfterFunc(1500*time.Millisecond, func() { _ = svc.Put("/p", []byte("2")) })
		require.Equal(t, "1", string(must.Get(s.Get(t.Context(), "/p"))(t).Value))
		require.Equal(t, "2", string(svc.Entry("/p").Value))
	})
}

// A commit whose caller has given up is done all the same, and its entries are removed.
func TestRequestsArriveLate(t *testing.T) {
	for name, opts := range map[string]Options{"each message": each(2 * time.Second), "this one": {}} {
		t.Run(name, func(t *testing.T) {
			alone(t, opts, func(t *testing.T, svc *Service, c *Client, s *session) {
				if opts.Latency == nil {
					c.DelayRequest(Key("/seat"), 2*time.Second)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.Commit(ctx, nil, backend.CreateEphemeral("/seat", nil), backend.CompareAndSet("/note", nil, 0))
				require.ErrorIs(t, err, backend.ErrIndeterminate)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.False(t, svc.Entry("/note").Exists(), "it is under way")
				time.Sleep(2 * time.Second)
				require.True(t, svc.Entry("/note").Exists())
				require.False(t, svc.Entry("/seat").Exists())
			})
		})
	}
}

func TestRequestsArriveAfterTheSession(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Client, *session){
		"it is closed":  func(t *testing.T, _ *Client, s *session) { require.NoError(t, s.Close(t.Context())) },
		"it is revoked": func(_ *testing.T, c *Client, _ *session) { c.Revoke() },
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
				c.DelayRequest(nil, time.Second)
				outcome := later(func() ([]backend.Entry, error) {
					return s.Commit(context.Background(), nil, backend.CreateEphemeral("/seat", nil))
				})
				synctest.Wait()
				end(t, c, s)
				err := <-outcome
				require.ErrorIs(t, err, backend.ErrSessionLost)
				require.ErrorIs(t, err, backend.ErrIndeterminate)
				time.Sleep(time.Hour)
				require.False(t, svc.Entry("/seat").Exists())
				require.Zero(t, svc.Stats().Sessions)
			})
		})
	}
}

// A request whose link is dead when it should arrive is lost, and is sent again.
func TestRequestsAreLostWithTheirLink(t *testing.T) {
	alone(t, each(time.Second), func(t *testing.T, svc *Service, c *Client, s *session) {
		time.AfterFunc(500*time.Millisecond, c.Suspend)
		time.AfterFunc(3*time.Second, c.Resume)
		began := time.Now()
		create(t, s, "/seat")
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 2, svc.Stats().Commits)

		time.AfterFunc(1500*time.Millisecond, c.Suspend) // done, and not answered
		time.AfterFunc(3*time.Second, c.Resume)
		create(t, s, "/other")
		require.EqualValues(t, 3, svc.Stats().Commits)
	})
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := true
		svc := New(Options{Latency: func() time.Duration {
			long = !long
			if long {
				return time.Second
			}
			return time.Millisecond
		}})
		s := open(t, svc.Client("a"))
		for range 10 {
			first := make(chan uint64, 1)
			go func() {
				e, err := s.Commit(context.Background(), nil, backend.CreateEphemeral("/first", nil))
				if err == nil {
					first <- e[0].Rev
				}
			}()
			synctest.Wait()
			second := create(t, s, "/second")
			got := <-first
			require.Less(t, got, second.Rev)
			require.NoError(t, s.Discard(t.Context(), second))
			require.NoError(t, s.Discard(t.Context(), backend.Entry{Key: "/first", Rev: got}))
		}
	})
}

func TestOpenWhileMessagesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(each(time.Second))
		for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := svc.Client("a").Open(ctx, backend.OpenOptions{})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Hour)
		require.Zero(t, svc.Stats().Sessions, "what nobody has heard of times out")
		c := svc.Client("a")
		time.AfterFunc(500*time.Millisecond, c.Suspend)
		require.ErrorIs(t, must.Err(c.Open(t.Context(), backend.OpenOptions{})), backend.ErrUnavailable)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, svc.Stats().Opens)
		require.EqualValues(t, 1, svc.Stats().Expired)
	})
}

func TestDeadLinkIsNoticedLate(t *testing.T) {
	alone(t, Options{Detect: time.Second}, func(t *testing.T, svc *Service, c *Client, s *session) {
		e := create(t, s, "/seat")
		deadline := s.Deadline()
		c.Suspend()
		require.Equal(t, backend.Live, s.State())
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, backend.Live, s.State())
		require.Equal(t, deadline, s.Deadline(), "nothing is acknowledged")
		began := time.Now()
		require.Equal(t, backend.Suspended, must.Get(s.AwaitState(t.Context(), backend.Live))(t))
		require.Equal(t, time.Millisecond, time.Since(began))
		require.Equal(t, backend.Lost, must.Get(s.AwaitState(t.Context(), backend.Suspended))(t))
		require.Equal(t, deadline, time.Now())
		require.True(t, svc.Entry(e.Key).Exists())
		time.Sleep(time.Second)
		require.False(t, svc.Entry(e.Key).Exists())

		// A link that is back before that was only slow.
		s = open(t, svc.Client("b"))
		b := s.client
		time.AfterFunc(500*time.Millisecond, b.Resume)
		b.Suspend()
		began = time.Now()
		create(t, s, "/seat")
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		time.Sleep(time.Hour)
		require.Equal(t, backend.Live, s.State())

		// The window ends even if nobody has noticed that the link is dead.
		svc = New(Options{Detect: time.Minute})
		s = open(t, svc.Client("a"))
		deadline = s.Deadline()
		s.client.Suspend()
		require.Equal(t, backend.Lost, must.Get(s.AwaitState(t.Context(), backend.Live))(t))
		require.Equal(t, deadline, time.Now())
	})
}

func TestRevokeIsHeardLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Options{})
		c := svc.Client("a")
		other := open(t, svc.Client("b"))

		s := open(t, c)
		time.Sleep(time.Second)
		deadline := s.Deadline()
		e := create(t, s, "/seat")
		c.Revoke()
		require.False(t, must.Get(other.Await(t.Context(), e))(t)[0].Exists())
		require.Equal(t, backend.Live, s.State(), "the others know first")
		began := time.Now()
		require.Equal(t, backend.Lost, must.Get(s.AwaitState(t.Context(), backend.Live))(t))
		require.Equal(t, 2*time.Second, time.Since(began), "its next heartbeat")
		require.Equal(t, deadline, s.Deadline())

		for name, call := range map[string]func(*session) error{
			"get": func(s *session) error { _, err := s.Get(t.Context(), "/p"); return err },
			"commit": func(s *session) error {
				_, err := s.Commit(t.Context(), nil, backend.CreateEphemeral("/p", nil))
				return err
			},
			"drop":  func(s *session) error { return s.Discard(t.Context(), e) },
			"await": func(s *session) error { _, err := s.Await(t.Context(), backend.Unknown("/p")); return err },
		} {
			s := open(t, c)
			c.Revoke()
			require.ErrorIs(t, call(s), backend.ErrSessionLost, name)
			require.Equal(t, backend.Lost, s.State())
		}

		// A session that is out of touch learns of it when it is back.
		s = open(t, c)
		c.Suspend()
		c.Revoke()
		require.Equal(t, backend.Suspended, s.State())
		c.Resume()
		require.Equal(t, backend.Lost, s.State())
		require.Equal(t, 1, svc.Stats().Sessions)
	})
}
