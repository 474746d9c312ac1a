package elector_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// standing makes an elector of an election at /e. It is closed at the end of the test.
func standing(t *testing.T, b backend.Backend, id string, set ...func(*elector.Config)) elector.Elector {
	t.Helper()
	cfg := elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/e", ID: id}
	for _, f := range set {
		f(&cfg)
	}
	e := must.Get(elector.New(cfg))(t)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// leads campaigns with e until it has a term.
func leads(t *testing.T, e elector.Elector) *elector.Term {
	t.Helper()
	return must.Get(e.Campaign(t.Context()))(t)
}

// campaigns makes e campaign until the test ends, and waits until everything is quiet.
func campaigns(t *testing.T, e elector.Elector) {
	ctx, cancel := context.WithCancel(t.Context())
	var campaigning sync.WaitGroup
	campaigning.Go(func() { _, _ = e.Campaign(ctx) })
	t.Cleanup(func() { cancel(); campaigning.Wait() })
	synctest.Wait()
}

// has fails unless the status has the role since then.
func has(t *testing.T, s elector.Status, role elector.Role, since time.Time) {
	t.Helper()
	assert.Equal(t, role, s.Role)
	assert.WithinDuration(t, since, s.Since, 0)
	assert.Equal(t, role == elector.RoleLeading, s.IsLeader())
}

// shows fails unless the status shows the leader as of then, or less than a second later.
func shows(t *testing.T, s elector.Status, id string, asOf time.Time) {
	t.Helper()
	late := s.LeaderAsOf.Sub(asOf)
	assert.True(t, s.Leader.ID == id && late >= 0 && late < time.Second, "leader %q as of %v, want %q as of %v", s.Leader.ID, s.LeaderAsOf, id, asOf)
}

// recent fails unless asOf is within the last ten seconds.
func recent(t *testing.T, asOf time.Time) {
	t.Helper()
	assert.LessOrEqual(t, time.Since(asOf), 10*time.Second)
}

// A status that is read while a campaign wins is not idle: it was idle neither before nor after.
func TestStatusIsNotIdleWhileOneWins(t *testing.T) {
	e := standing(t, memory.New(memory.Options{}).Client("a"), "a")
	var round, led atomic.Int64 // round is odd from before a campaign until its term was seen
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		stood := int64(0) // the last round in which it was seen standing
		for ctx.Err() == nil {
			before := round.Load()
			s := e.Status()
			switch {
			case before != round.Load() || before%2 == 0:
			case s.Role == elector.RoleEntering, s.Role == elector.RoleStanding:
				stood = before
			case s.Role == elector.RoleLeading:
				led.Store(before)
			case s.Role == elector.RoleIdle && stood == before:
				t.Errorf("idle, and has not lost: %+v", s)
				return
			}
			runtime.Gosched() // for a single or busy processor
		}
	})
	defer watching.Wait()
	defer cancel()
	for range 3000 {
		round.Add(1)
		term := leads(t, e)
		for led.Load() != round.Load() && !t.Failed() {
			runtime.Gosched()
		}
		round.Add(1)
		require.NoError(t, term.Resign(t.Context()))
	}
}

// The status of a term, from its first moment to its last.
func TestStatusOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		e := standing(t, client, "a", func(c *elector.Config) { c.Value = []byte("first") })
		began := time.Now()
		s := e.Status()
		has(t, s, elector.RoleIdle, began)
		assert.Equal(t, elector.Status{Role: s.Role, Since: s.Since}, s, "nothing more is known")
		time.Sleep(time.Second)
		term := leads(t, e)
		led := time.Now()
		s = e.Status()
		has(t, s, elector.RoleLeading, led)
		shows(t, s, "a", led)
		assert.Equal(t, term.Token(), s.Token)
		assert.Equal(t, term.Token(), s.Leader.Token)
		assert.Equal(t, "first", string(s.Leader.Value))
		assert.True(t, s.Place == 1 && s.State == backend.Live && s.Session != "", "a leader's: %+v", s)
		time.Sleep(time.Minute)
		s = e.Status()
		recent(t, s.LeaderAsOf)
		assert.True(t, s.Deadline.After(time.Now()), s.Deadline)
		require.NoError(t, term.Proclaim(t.Context(), []byte("second")))
		assert.Equal(t, "second", string(e.Status().Leader.Value))
		require.NoError(t, term.Resign(t.Context()))
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		assert.True(t, s.Token == 0 && s.Place == 0 && s.LeaderAsOf.IsZero() && s.Err == nil, "after its term: %+v", s)
		time.Sleep(time.Second)
		ended := time.Now()
		require.NoError(t, e.Close(t.Context()))
		s = e.Status()
		has(t, s, elector.RoleClosed, ended)
		assert.Equal(t, backend.Lost, s.State, "the session is %v after Close", s.State)
	})
}

// If a leader hears late of an earlier write of its own, its status still shows its later write.
func TestStatusGoesNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := backend.Intercept(memory.New(memory.Options{}), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			err := next(ctx)
			if c.Kind == backend.CallAwait {
				time.Sleep(time.Second)
			}
			return err
		})
		e := standing(t, late, "a")
		term := leads(t, e)
		time.Sleep(time.Minute)
		require.NoError(t, term.Proclaim(t.Context(), []byte("first")))
		pass(500 * time.Millisecond) // it is about to hear of that
		require.NoError(t, term.Proclaim(t.Context(), []byte("second")))
		seat := must.Get(e.Leader(t.Context()))(t).Seat
		for range 3 {
			assert.Equal(t, seat, e.Status().Leader.Seat)
			pass(750 * time.Millisecond)
		}
	})
}

// A waiting candidate knows its place and who leads without a request if its strategy waits for the
// leader; otherwise it knows its place after it has read the list.
func TestStatusOfOneThatWaits(t *testing.T) {
	for _, c := range []struct {
		strategy strategy.Strategy
		second   int // the place that is known of the second one
		third    bool
	}{
		{fair.Strategy{}, 2, false}, {ranked.Strategy{}, 2, false}, {unfair.Strategy{}, 0, true}, {kafka.Strategy{}, 0, true},
	} {
		t.Run(c.strategy.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				with := func(cfg *elector.Config) { cfg.Strategy = c.strategy }
				one := standing(t, service.Client("1"), "1", with)
				term := leads(t, one)
				time.Sleep(time.Second)
				entered := time.Now()
				two, three := standing(t, service.Client("2"), "2", with), standing(t, service.Client("3"), "3", with)
				campaigns(t, two)
				campaigns(t, three)
				time.Sleep(time.Hour)
				s := two.Status()
				has(t, s, elector.RoleStanding, entered)
				assert.Equal(t, "1", s.Leader.ID)
				assert.Equal(t, term.Token(), s.Leader.Token)
				recent(t, s.LeaderAsOf)
				assert.Equal(t, c.second, s.Place)
				assert.Equal(t, s.Place != 0, time.Since(s.PlaceAsOf) < 10*time.Second, s.PlaceAsOf)
				s = three.Status()
				assert.True(t, s.Place == 0 && s.PlaceAsOf.IsZero(), "the third one has place %d as of %v", s.Place, s.PlaceAsOf)
				assert.Equal(t, c.third, s.Leader.ID == "1", "the third one shows the leader")
				must.Get(three.Candidates(t.Context()))(t)
				s = three.Status()
				assert.True(t, c.second == 0 || s.Place == 3 && s.PlaceAsOf.Equal(time.Now()), "place %d as of %v after Candidates", s.Place, s.PlaceAsOf)
				require.NoError(t, one.Close(t.Context()))
				synctest.Wait()
				assert.True(t, two.Status().IsLeader() != three.Status().IsLeader(), "the second one is %v, and the third one %v", two.Status().Role, three.Status().Role)
			})
		})
	}
}

// Candidates of several processes with the same ID each find their own place.
func TestCandidatesOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		one, two := standing(t, service.Client("1"), "a"), standing(t, service.Client("2"), "a")
		leads(t, one)
		campaigns(t, two)
		for place, e := range []elector.Elector{one, two} {
			all := must.Get(e.Candidates(t.Context()))(t)
			require.Len(t, all, 2)
			assert.True(t, all[place].Own)
			assert.False(t, all[1-place].Own)
		}
	})
}

// What an Observe shows gets older while it is out of touch, while its loop is busy, and after its end.
func TestStatusOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		leader := standing(t, service.Client("a"), "a")
		term := leads(t, leader)
		client := service.Client("b")
		e := standing(t, client, "b")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		busy := make(chan struct{})
		var observing sync.WaitGroup
		observing.Go(func() {
			for range e.Observe(ctx) {
				<-busy
			}
		})
		synctest.Wait()
		seen := time.Now()
		has(t, e.Status(), elector.RoleIdle, seen)
		shows(t, e.Status(), "a", seen)
		time.Sleep(time.Hour)
		shows(t, e.Status(), "a", seen) // its loop is busy
		close(busy)
		time.Sleep(time.Hour)
		recent(t, e.Status().LeaderAsOf)
		client.Suspend()
		synctest.Wait()
		cut := e.Status()
		time.Sleep(3 * time.Second)
		s := e.Status()
		shows(t, s, "a", cut.LeaderAsOf)
		assert.True(t, s.State == backend.Suspended && s.Deadline.Equal(cut.Deadline), "out of touch its session is %v until %v", s.State, s.Deadline)
		time.Sleep(time.Hour)
		s = e.Status()
		shows(t, s, "a", cut.LeaderAsOf)
		assert.True(t, s.State == backend.Lost && s.Err != nil && !s.NextTry.IsZero(), "after an hour out of touch: %+v", s)
		require.NoError(t, term.Resign(t.Context()))
		client.Resume()
		time.Sleep(10 * time.Second)
		s = e.Status()
		recent(t, s.LeaderAsOf)
		assert.Empty(t, s.Leader.ID)
		assert.True(t, s.State == backend.Live && s.NextTry.IsZero() && s.Err != nil, "back in touch: %+v", s)
		stop()
		observing.Wait()
		over := e.Status().LeaderAsOf
		time.Sleep(time.Hour)
		assert.Equal(t, over, e.Status().LeaderAsOf, "Observe is over")
		_, err := e.Leader(t.Context())
		require.ErrorIs(t, err, elector.ErrNoLeader)
		shows(t, e.Status(), "", time.Now())
	})
}

// A leader that is out of touch leads until its window ends; after that it knows nothing of who leads.
func TestStatusOfALeaderThatIsOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		e := standing(t, client, "a")
		term := leads(t, e)
		time.Sleep(time.Minute)
		led := e.Status().Since
		client.Suspend()
		synctest.Wait()
		s := e.Status()
		has(t, s, elector.RoleLeading, led)
		assert.Equal(t, backend.Suspended, s.State, "the session is %v", s.State)
		asOf := s.LeaderAsOf
		time.Sleep(time.Until(s.Deadline) - time.Second)
		shows(t, e.Status(), "a", asOf)
		<-term.Context().Done()
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		assert.True(t, s.LeaderAsOf.IsZero() && s.State == backend.Lost, "after its window: %+v", s)
		assert.ErrorIs(t, s.Err, elector.ErrSessionLost)
		assert.WithinDuration(t, time.Now(), s.ErrAt, 0)
	})
}

// While no server can be reached, a campaign's status says what is wrong and when it tries again.
func TestStatusOfOneThatTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		service.Stop()
		e := standing(t, service.Client("a"), "a")
		began := time.Now()
		entered := began
		campaigns(t, e)
		for range 5 {
			s := e.Status()
			has(t, s, elector.RoleEntering, entered)
			require.True(t, errors.Is(s.Err, backend.ErrUnavailable) && !s.ErrAt.Before(began) && s.NextTry.After(time.Now()), "it tries again: %+v", s)
			began = s.NextTry
			time.Sleep(time.Until(s.NextTry))
			synctest.Wait()
		}
		service.Start()
		time.Sleep(time.Minute)
		s := e.Status()
		assert.True(t, s.Role == elector.RoleLeading && s.NextTry.IsZero() && errors.Is(s.Err, backend.ErrUnavailable), "it has come to lead: %+v", s)
	})
}

// If the application is not fit, the status says so.
func TestStatusOfOneThatIsNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ill error = errors.New("disk full")
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Fit.Check = func(context.Context) error { return ill }
		})
		campaigns(t, e)
		s := e.Status()
		assert.Equal(t, elector.RoleEntering, s.Role)
		assert.ErrorIs(t, s.Err, elector.ErrUnfit)
		assert.ErrorContains(t, s.Err, "disk full")
	})
}

// The status shows a lead function that continues after its term, and the pause after one that failed.
func TestStatusOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		e := standing(t, client, "a")
		ctx, cancel := context.WithCancel(t.Context())
		failed := errors.New("disk full")
		release := make(chan error)
		var running sync.WaitGroup
		running.Go(func() {
			_ = elector.Run(ctx, e, func(context.Context, *elector.Term) error { return <-release })
		})
		synctest.Wait()
		token := e.Status().Token
		has(t, e.Status(), elector.RoleLeading, time.Now())
		client.Expire()
		synctest.Wait()
		lost := time.Now()
		time.Sleep(time.Hour)
		s := e.Status()
		has(t, s, elector.RoleLeaving, lost)
		assert.True(t, s.Token == token && s.Place == 0 && s.State == backend.Lost, "its lead function goes on: %+v", s)
		release <- failed
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		assert.True(t, errors.Is(s.Err, failed) && s.NextTry.After(time.Now()), "its lead function has failed: %+v", s)
		time.Sleep(time.Minute)
		s = e.Status()
		assert.True(t, s.Role == elector.RoleLeading && s.Token > token && s.NextTry.IsZero(), "it leads again: %+v", s)
		cancel()
		release <- nil
		running.Wait()
	})
}

// Status sends no request in any state, and may be called at any time by many goroutines.
func TestStatusAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("a")
		b := meter.New(client, nil)
		e := standing(t, b, "a")
		quiet := func() {
			t.Helper()
			synctest.Wait()
			before := b.Counts()
			for range 1000 {
				e.Status()
			}
			assert.Equal(t, before, b.Counts())
		}
		quiet()
		var looking sync.WaitGroup
		over := make(chan struct{})
		for range 4 {
			looking.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						e.Status()
					}
				}
			})
			looking.Go(func() {
				for range e.Observe(t.Context()) {
				}
			})
		}
		for range 20 {
			term := leads(t, e)
			quiet()
			require.NoError(t, term.Resign(t.Context()))
			quiet()
		}
		leads(t, e)
		client.Suspend()
		time.AfterFunc(5*time.Second, client.Resume)
		assert.NoError(t, e.Close(t.Context()))
		quiet()
		close(over)
		looking.Wait()
		s := e.Status()
		assert.True(t, s.Role == elector.RoleClosed && s.State == backend.Lost, "after Close: %+v", s)
	})
}

// A hook that does not return keeps Close waiting, but not Status.
func TestStatusWhileCloseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Hooks.Ended = func(*elector.Term, error) { <-release }
		})
		term := leads(t, e)
		var closing sync.WaitGroup
		closing.Go(func() { _ = e.Close(context.Background()) })
		synctest.Wait()
		s := e.Status()
		assert.True(t, s.Role == elector.RoleLeaving && s.Token == term.Token(), "while Close waits: %+v", s)
		close(release)
		closing.Wait()
		s = e.Status()
		assert.True(t, s.Role == elector.RoleClosed && s.Token == 0, "after Close: %+v", s)
	})
}

// A status in JSON has the text of its error, and omits what is not known.
func TestStatusInJSON(t *testing.T) {
	status := elector.Status{
		Role: elector.RoleStanding, Place: 2, Err: errors.New("disk full"), State: backend.Suspended, Session: "7",
		Leader: elector.Leader{ID: "a", Token: 5, Value: []byte("http://a")},
	}
	text := must.Get(json.Marshal(status))(t)
	require.Equal(t, `{"role":"standing","place":2,"leader":{"id":"a","value":"aHR0cDovL2E=","text":"http://a","token":5},`+
		`"session":{"id":"7","state":"suspended","deadline":"0001-01-01T00:00:00Z"},"err":"disk full"}`, string(text))
	var again elector.Status
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, status, again)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"session":{"state":"asleep"}}`), &again), "asleep")

	status = elector.Status{Leader: elector.Leader{ID: "a", Value: []byte{0xff}}}
	text = must.Get(json.Marshal(status))(t)
	require.NotContains(t, string(text), `"text"`)
	for role := elector.Role(0); role <= elector.RoleClosed; role++ {
		var again elector.Role
		text, _ := role.MarshalText()
		require.NoError(t, again.UnmarshalText(text))
		assert.Equal(t, role, again)
	}
	assert.Error(t, new(elector.Role).UnmarshalText([]byte("master")))
}

// A candidate that waits until a directory which takes no more is empty stands nowhere.
func TestStatusInAUsedUpElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		leads(t, standing(t, service.Client("a"), "a"))
		record := string(service.Entry("/e").Value)
		var dir struct{ Dir string }
		require.NoError(t, json.Unmarshal([]byte(record), &dir))
		service.UseUp("/e/"+dir.Dir, 0)
		e := standing(t, service.Client("b"), "b")
		campaigns(t, e)
		assert.Equal(t, elector.RoleEntering, e.Status().Role)
	})
}

// A Campaign after Close is refused before anything of it is reported.
func TestCampaignAfterClose(t *testing.T) {
	for range 100 {
		told := false
		e := standing(t, memory.New(memory.Options{}), "a", func(cfg *elector.Config) {
			cfg.Hooks.Campaign = func(elector.CampaignEvent) { told = true }
		})
		require.NoError(t, e.Close(t.Context()))
		_, err := e.Campaign(t.Context())
		require.ErrorIs(t, err, elector.ErrClosed)
		assert.False(t, told)
	}
}
