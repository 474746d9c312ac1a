package memory

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// open opens a session with a timeout of 9 s: it beats every 3 s, and its window is 8.1 s long.
func open(t *testing.T, c *Client) *session {
	t.Helper()
	s := must.Get(c.Open(t.Context(), backend.OpenOptions{TTL: 9 * time.Second}))(t)
	return s.Driver().(*session)
}

// alone runs a test with one session, on fake time.
func alone(t *testing.T, o Options, test func(t *testing.T, svc *Service, c *Client, s *session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := New(o)
		c := svc.Client("a")
		test(t, svc, c, open(t, c))
	})
}

func create(t *testing.T, s backend.Driver, key string) backend.Entry {
	t.Helper()
	out := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral(key, []byte("x"))))(t)
	return out[0]
}

// later makes a call on a goroutine of its own, and reports how it ends.
func later(call func() ([]backend.Entry, error)) <-chan error {
	ended := make(chan error, 1)
	go func() { _, err := call(); ended <- err }()
	return ended
}

func TestWindowPassesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		svc := New(Options{})
		c := svc.Client("a")
		s, other := open(t, c), open(t, svc.Client("b"))
		require.Equal(t, 8100*time.Millisecond, s.Deadline().Sub(began))
		e := create(t, s, "/seat")

		time.Sleep(4 * time.Second) // the last beat was at 3 s
		require.Equal(t, 11100*time.Millisecond, s.Deadline().Sub(began))
		c.Suspend()
		require.Equal(t, backend.Suspended, s.State())

		require.Equal(t, backend.Lost, must.Get(s.AwaitState(t.Context(), backend.Suspended))(t))
		require.Equal(t, 11100*time.Millisecond, time.Since(began))
		require.True(t, svc.Entry("/seat").Exists(), "the service does not know yet")

		must.Get(other.Await(t.Context(), e))(t)
		require.Equal(t, 12*time.Second, time.Since(began))
		require.Equal(t, 1, svc.Stats().Sessions)
	})
}

func TestWindowOfAnOptionalMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := open(t, New(Options{Margin: 2 * time.Second}).Client("a"))
		require.Equal(t, 7*time.Second, s.Deadline().Sub(began))
		s = open(t, New(Options{Margin: time.Hour}).Client("a"))
		require.Equal(t, 4500*time.Millisecond, s.Deadline().Sub(began))
	})
}

func TestResumeBeatsAtOnce(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, _ *Service, c *Client, s *session) {
		time.Sleep(2 * time.Second)
		c.Suspend()
		time.Sleep(5 * time.Second)
		c.Resume()
		require.Equal(t, backend.Live, s.State())
		require.Equal(t, 8100*time.Millisecond, time.Until(s.Deadline()))
		time.Sleep(time.Hour)
		require.Equal(t, backend.Live, s.State())
	})
}

func TestTimeoutsAreGrantedWithinLimits(t *testing.T) {
	c := New(Options{MinTTL: time.Second, MaxTTL: time.Minute, DefaultTTL: 5 * time.Second}).Client("a")
	for wish, want := range map[time.Duration]time.Duration{0: 5 * time.Second, -1: time.Second, 1: time.Second,
		7 * time.Second: 7 * time.Second, time.Hour: time.Minute} {
		require.Equal(t, want, must.Get(c.Open(t.Context(), backend.OpenOptions{TTL: wish}))(t).TTL(), "wish %v", wish)
	}
}

func TestExpireOfASuspendedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Options{})
		a, b := svc.Client("a"), svc.Client("b")
		s, r := open(t, a), open(t, b)
		create(t, s, "/seat")
		began := time.Now()
		a.Suspend()
		b.Suspend()
		a.Expire()
		b.Expire()
		require.False(t, svc.Entry("/seat").Exists())
		require.Equal(t, backend.Suspended, s.State(), "it cannot have heard")
		a.Resume()
		require.Equal(t, backend.Lost, s.State())
		require.Equal(t, backend.Lost, must.Get(r.AwaitState(t.Context(), backend.Suspended))(t))
		require.Equal(t, 8100*time.Millisecond, time.Since(began), "without Resume its window ends it")
	})
}

func TestDelayReply(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		c.DelayReply(Key("/seat"), time.Minute)
		create(t, s, "/other")
		began := time.Now()
		e := create(t, s, "/seat")
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, svc.Entry("/seat"), e)

		c.DelayReply(nil, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Commit(ctx, nil, backend.CreateEphemeral("/ghost", nil))
		require.ErrorIs(t, err, backend.ErrIndeterminate)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, svc.Entry("/ghost").Exists())
	})
}

// A match may suspend the process whose commit it is about, at that instant.
func TestMatchThatCallsTheService(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		asked := 0
		c.LoseReply(func(ops []backend.Op) bool {
			if asked++; asked == 1 {
				c.Suspend()
				time.AfterFunc(time.Second, c.Resume)
			}
			return Key("/seat")(ops) && !svc.Entry("/other").Exists()
		})
		began := time.Now()
		e := create(t, s, "/seat")
		require.Equal(t, time.Second, time.Since(began), "it is not sent while the session is suspended")
		require.Equal(t, svc.Entry("/seat"), e)
		require.Equal(t, 2, asked)
		require.EqualValues(t, 1, svc.Stats().Commits)
	})
}

func TestFaultsFireOnceAndInOrder(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		c.LoseRequest(Kind(backend.OpCreateEphemeral))
		c.LoseReply(Any)
		before := svc.Stats().Commits
		create(t, s, "/seat") // lost, sent again, reply lost, looked up
		require.EqualValues(t, 2, svc.Stats().Commits-before)
		require.EqualValues(t, 1, svc.Stats().Rev)
		create(t, s, "/another")
		require.EqualValues(t, 3, svc.Stats().Commits-before)
	})
}

func TestWakeupsHeldAndDelayed(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		e := create(t, s, "/seat")
		c.DelayWakeups(time.Minute)
		release, again := c.HoldWakeups(), c.HoldWakeups()
		began := time.Now()
		done := later(func() ([]backend.Entry, error) { return s.Await(t.Context(), e) })
		synctest.Wait()
		svc.Delete("/seat")
		require.ErrorIs(t, must.Err(s.Get(t.Context(), "/seat")), backend.ErrNoEntry, "reads are not held")
		time.Sleep(time.Hour)
		release()
		release()
		synctest.Wait()
		require.Empty(t, done, "one of two holds is left")
		again()
		require.NoError(t, <-done)
		require.Equal(t, time.Hour, time.Since(began))

		c.DelayWakeups(time.Minute)
		e = create(t, s, "/seat")
		done = later(func() ([]backend.Entry, error) { return s.Await(t.Context(), e) })
		synctest.Wait()
		svc.Delete("/seat")
		require.NoError(t, <-done)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
		require.Zero(t, svc.Stats().Watches)
	})
}

func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Options{})
		a := svc.Client("a")
		brief, cut := open(t, a), open(t, svc.Client("b"))
		create(t, brief, "/brief")
		create(t, cut, "/cut")
		cut.client.Suspend()
		svc.Stop()
		require.ErrorIs(t, must.Err(svc.Open(t.Context(), backend.OpenOptions{})), backend.ErrUnavailable)
		a.Resume() // its link is not what is missing
		require.Equal(t, backend.Suspended, brief.State())
		time.Sleep(5 * time.Second)
		svc.Start()
		require.Equal(t, backend.Live, brief.State())
		require.Equal(t, backend.Suspended, cut.State())

		// Nothing times out while the service is down, and all sessions get their full time again.
		svc.Stop()
		time.Sleep(time.Hour)
		require.Equal(t, backend.Lost, brief.State())
		require.Len(t, svc.Entries("/"), 2)
		svc.Start()
		time.Sleep(8999 * time.Millisecond)
		require.Len(t, svc.Entries("/"), 2)
		time.Sleep(time.Second)
		require.Empty(t, svc.Entries("/"))
	})
}

func TestInterceptHoldsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var steps []string
		gate := make(chan struct{})
		svc := New(Options{Intercept: func(step Step) {
			mu.Lock()
			steps = append(steps, step.Client+" "+string(step.Kind)+" "+step.Key)
			mu.Unlock()
			if step.Client == "slow" && step.Kind == StepCommit {
				<-gate
			}
		}})
		slow, fast := open(t, svc.Client("slow")), open(t, svc.Client("fast"))
		done := later(func() ([]backend.Entry, error) {
			return slow.Commit(t.Context(), nil, backend.CreateEphemeral("/seat", nil))
		})
		synctest.Wait()
		e := create(t, fast, "/seat")
		close(gate)
		require.ErrorIs(t, <-done, backend.ErrExists)
		done = later(func() ([]backend.Entry, error) { return slow.Await(t.Context(), e) })
		synctest.Wait()
		require.NoError(t, fast.Discard(t.Context(), e))
		require.NoError(t, <-done)
		require.NoError(t, slow.Close(t.Context()))
		require.Equal(t, []string{"slow open ", "fast open ", "slow commit /seat", "fast commit /seat",
			"slow await /seat", "fast discard /seat", "slow wake /seat", "slow close "}, steps)
	})
}

func TestMomentaryBreakIsSeenByStateWatchers(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		c.CutReply(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := later(func() ([]backend.Entry, error) { return s.Commit(ctx, nil, backend.CreateEphemeral("/seat", nil)) })
		require.Equal(t, backend.Suspended, must.Get(s.AwaitState(t.Context(), backend.Live))(t))
		require.True(t, svc.Entry("/seat").Exists(), "it was done")
		cancel()
		require.ErrorIs(t, <-done, backend.ErrIndeterminate)
		require.True(t, svc.Entry("/seat").Exists(), "it cannot be removed yet")
		c.Resume()
		require.False(t, svc.Entry("/seat").Exists())
		require.Equal(t, backend.Live, s.State())
	})
}

func TestCloseOutOfTouch(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, svc *Service, c *Client, s *session) {
		create(t, s, "/seat")
		c.Suspend()
		require.ErrorIs(t, s.Close(t.Context()), backend.ErrUnavailable)
		require.Equal(t, backend.Lost, s.State())
		require.True(t, svc.Entry("/seat").Exists())
		c.Resume()
		require.True(t, svc.Entry("/seat").Exists())
		require.NoError(t, s.Close(t.Context()))
		require.False(t, svc.Entry("/seat").Exists())
		require.NoError(t, s.Close(t.Context()))
	})
}

func TestRefusals(t *testing.T) {
	svc := New(Options{})
	s := open(t, svc.Client("a"))
	require.NoError(t, svc.Put("/d/below", nil))
	create(t, s, "/seat")
	require.NoError(t, must.Err(s.Commit(t.Context(), nil, backend.Delete(svc.Entry("/d/below")), backend.Delete(svc.Entry("/d")))), "it has no child any more")
	for _, op := range []backend.Op{backend.CreateEphemeral("/seat/x", nil), backend.Enqueue("/seat", nil), backend.CompareAndSet("/seat/x/y", nil, 0)} {
		require.ErrorIs(t, must.Err(s.Commit(t.Context(), nil, op)), backend.ErrNoParent, "ephemeral entries have no children")
	}
	require.ErrorIs(t, svc.Put("/seat/x", nil), backend.ErrNoParent)
	for _, key := range []string{"", "/", "x", "/x/", "//x"} {
		require.Error(t, svc.Put(key, nil), key)
	}
	require.Error(t, must.Err(s.Commit(t.Context(), nil, backend.Op{Key: "/x"})))
	require.Contains(t, svc.Dump(), `/seat rev=2 version=1 value="x" session=s1 client=a state=live`)
	require.NoError(t, must.Err(s.Commit(t.Context(), nil)), "nothing to do")
}

// TestHalfOfALostReply: an operator removes one of two entries before it is known that they were created.
// The commit does not report the other one, so that one goes, too.
func TestHalfOfALostReply(t *testing.T) {
	var svc *Service
	svc = New(Options{Intercept: func(step Step) {
		if step.Kind == StepResolve {
			svc.Delete("/b")
		}
	}})
	client := svc.Client("a")
	s := must.Get(client.Open(t.Context(), backend.OpenOptions{}))(t)
	defer s.Close(context.Background())
	client.LoseReply(nil)
	require.ErrorIs(t, must.Err(s.Commit(t.Context(), nil, backend.CreateEphemeral("/a", nil), backend.CreateEphemeral("/b", nil))), backend.ErrIndeterminate)
	require.Empty(t, svc.Dump())
}

// A commit that is given up while its request is on its way leaves no entry, and a live session, with any fault
// that meets it.
func TestFaultOfAnAbandonedRequest(t *testing.T) {
	for what, fault := range map[string]func(c *Client){
		"none":          func(*Client) {},
		"cut reply":     func(c *Client) { c.CutReply(nil) },
		"lost reply":    func(c *Client) { c.LoseReply(nil) },
		"lost request":  func(c *Client) { c.LoseRequest(nil) },
		"delayed reply": func(c *Client) { c.DelayReply(nil, time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := New(Options{Latency: func() time.Duration { return 10 * time.Millisecond }})
				c := service.Client("a")
				s := must.Get(c.Open(t.Context(), backend.OpenOptions{}))(t)
				_ = must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/d", nil, 0)))(t)
				fault(c)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				_, err := s.Commit(ctx, nil, backend.Enqueue("/d", nil))
				require.ErrorIs(t, err, backend.ErrIndeterminate)
				time.Sleep(100 * time.Millisecond)
				c.Resume()
				time.Sleep(3 * time.Second)
				assert.Equal(t, backend.Live, s.State())
				assert.Empty(t, service.Entries("/d"))
				require.NoError(t, s.Close(t.Context()))
			})
		})
	}
}
