package elector_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
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
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// standing makes an elector of an election at /e. What it leaves open is closed at the end.
func standing(t *testing.T, b backend.Backend, id string, set ...func(*elector.Config)) elector.Elector {
	t.Helper()
	cfg := elector.Config{Backend: b, Strategy: fair.New(), Election: "/e", ID: id}
	for _, f := range set {
		f(&cfg)
	}
	e, err := elector.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// campaigns has e campaign until the test ends, and waits until all is still.
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
	if s.Role != role || !s.Since.Equal(since) || s.IsLeader() != (role == elector.RoleLeading) {
		t.Errorf("%v since %v, want %v since %v", s.Role, s.Since, role, since)
	}
}

// shows fails unless the status shows the leader as of then, or later by less than a second.
func shows(t *testing.T, s elector.Status, id string, asOf time.Time) {
	t.Helper()
	if late := s.LeaderAsOf.Sub(asOf); s.Leader.ID != id || late < 0 || late >= time.Second {
		t.Errorf("leader %q as of %v, want %q as of %v", s.Leader.ID, s.LeaderAsOf, id, asOf)
	}
}

// A status that is asked for while a campaign wins is not idle: it was that neither before nor after.
func TestStatusIsNotIdleWhileOneWins(t *testing.T) {
	e := standing(t, memory.New(memory.Options{}).Client("a"), "a")
	var round, led atomic.Int64 // round is odd from before a campaign until its term was seen
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		stood := int64(0) // the last round in which it was seen to stand
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
			runtime.Gosched() // where there is one processor, or a busy one
		}
	})
	defer watching.Wait()
	defer cancel()
	for range 3000 {
		round.Add(1)
		term, err := e.Campaign(t.Context())
		require.NoError(t, err)
		for led.Load() != round.Load() && !t.Failed() {
			runtime.Gosched()
		}
		round.Add(1)
		require.NoError(t, term.Resign(t.Context()))
	}
}

// A term, from the first moment to the last.
func TestStatusOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		e := standing(t, client, "a", func(c *elector.Config) { c.Value = []byte("first") })
		began := time.Now()
		s := e.Status()
		has(t, s, elector.RoleIdle, began)
		if s.State != 0 || s.Session != "" || !s.Deadline.IsZero() || s.Err != nil || !s.NextTry.IsZero() || !s.LeaderAsOf.IsZero() || s.Place != 0 {
			t.Errorf("something is known of nothing: %+v", s)
		}
		time.Sleep(time.Second)
		term, err := e.Campaign(t.Context())
		require.NoError(t, err)
		led := time.Now()
		s = e.Status()
		has(t, s, elector.RoleLeading, led)
		shows(t, s, "a", led)
		if s.Token != term.Token() || s.Leader.Token != term.Token() || string(s.Leader.Value) != "first" || s.Place != 1 || s.State != backend.Live || s.Session == "" {
			t.Errorf("a leader's: %+v", s)
		}
		time.Sleep(time.Minute)
		s = e.Status()
		if age := time.Since(s.LeaderAsOf); age > 10*time.Second || !s.Deadline.After(time.Now()) {
			t.Errorf("it is known for %v, until %v", age, s.Deadline)
		}
		if err := term.Proclaim(t.Context(), []byte("second")); err != nil || string(e.Status().Leader.Value) != "second" {
			t.Errorf("%v; the value is %q", err, e.Status().Leader.Value)
		}
		require.NoError(t, term.Resign(t.Context()))
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		if s.Token != 0 || s.Place != 0 || !s.LeaderAsOf.IsZero() || s.Err != nil {
			t.Errorf("after its term: %+v", s)
		}
		time.Sleep(time.Second)
		ended := time.Now()
		require.NoError(t, e.Close(t.Context()))
		s = e.Status()
		has(t, s, elector.RoleClosed, ended)
		if s.State != backend.Lost {
			t.Errorf("the session is %v after Close", s.State)
		}
	})
}

// One that waits knows its place and who leads, without a request, where its strategy waits for
// the leader; and its place where it has asked for the list.
func TestStatusOfOneThatWaits(t *testing.T) {
	for _, c := range []struct {
		strategy elector.Strategy
		second   int // the place that is known of the second one
		third    bool
	}{
		{fair.New(), 2, false}, {ranked.Strategy{}, 2, false}, {unfair.New(), 0, true}, {kafka.New(), 0, true},
	} {
		t.Run(c.strategy.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				with := func(cfg *elector.Config) { cfg.Strategy = c.strategy }
				one := standing(t, service.Client("1"), "1", with)
				term, err := one.Campaign(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second)
				entered := time.Now()
				two, three := standing(t, service.Client("2"), "2", with), standing(t, service.Client("3"), "3", with)
				campaigns(t, two)
				campaigns(t, three)
				time.Sleep(time.Hour)
				s := two.Status()
				has(t, s, elector.RoleStanding, entered)
				if s.Leader.ID != "1" || s.Leader.Token != term.Token() || time.Since(s.LeaderAsOf) > 10*time.Second {
					t.Errorf("the second one shows leader %q as of %v ago", s.Leader.ID, time.Since(s.LeaderAsOf))
				}
				if s.Place != c.second || (s.Place != 0) != (time.Since(s.PlaceAsOf) < 10*time.Second) {
					t.Errorf("place %d as of %v ago, want %d", s.Place, time.Since(s.PlaceAsOf), c.second)
				}
				s = three.Status()
				if s.Place != 0 || !s.PlaceAsOf.IsZero() || (s.Leader.ID == "1") != c.third {
					t.Errorf("the third one has place %d as of %v, and shows leader %q", s.Place, s.PlaceAsOf, s.Leader.ID)
				}
				if _, err := three.Candidates(t.Context()); err != nil {
					t.Fatal(err)
				}
				if s = three.Status(); c.second != 0 && (s.Place != 3 || !s.PlaceAsOf.Equal(time.Now())) {
					t.Errorf("the third one has place %d as of %v after Candidates", s.Place, s.PlaceAsOf)
				}
				require.NoError(t, one.Close(t.Context()))
				synctest.Wait()
				if two.Status().IsLeader() == three.Status().IsLeader() {
					t.Errorf("the second one is %v, and the third one %v", two.Status().Role, three.Status().Role)
				}
			})
		})
	}
}

// What an Observe shows gets older while it is out of touch, while nobody goes on with it, and when it
// is over.
func TestStatusOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		leader := standing(t, service.Client("a"), "a")
		term, err := leader.Campaign(t.Context())
		require.NoError(t, err)
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
		if age := time.Since(e.Status().LeaderAsOf); age > 10*time.Second {
			t.Errorf("it follows, and what it shows is of %v ago", age)
		}
		client.Suspend()
		synctest.Wait()
		cut := e.Status()
		time.Sleep(3 * time.Second)
		s := e.Status()
		shows(t, s, "a", cut.LeaderAsOf)
		if s.State != backend.Suspended || !s.Deadline.Equal(cut.Deadline) {
			t.Errorf("out of touch its session is %v until %v", s.State, s.Deadline)
		}
		time.Sleep(time.Hour)
		s = e.Status()
		shows(t, s, "a", cut.LeaderAsOf)
		if s.State != backend.Lost || s.Err == nil || s.NextTry.IsZero() {
			t.Errorf("after an hour out of touch: %+v", s)
		}
		require.NoError(t, term.Resign(t.Context()))
		client.Resume()
		time.Sleep(10 * time.Second)
		s = e.Status()
		if s.Leader.ID != "" || time.Since(s.LeaderAsOf) > 10*time.Second || s.State != backend.Live || !s.NextTry.IsZero() || s.Err == nil {
			t.Errorf("back in touch: %+v", s)
		}
		stop()
		observing.Wait()
		over := e.Status().LeaderAsOf
		time.Sleep(time.Hour)
		if s = e.Status(); !s.LeaderAsOf.Equal(over) {
			t.Errorf("after Observe it is known as of %v, want %v", s.LeaderAsOf, over)
		}
		if _, err := e.Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Fatal(err)
		}
		shows(t, e.Status(), "", time.Now())
	})
}

// A leader that is out of touch leads until its window ends. Nothing is known then of who leads.
func TestStatusOfALeaderThatIsOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		e := standing(t, client, "a")
		term, err := e.Campaign(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		led := e.Status().Since
		client.Suspend()
		synctest.Wait()
		s := e.Status()
		has(t, s, elector.RoleLeading, led)
		if s.State != backend.Suspended {
			t.Errorf("the session is %v", s.State)
		}
		asOf := s.LeaderAsOf
		time.Sleep(time.Until(s.Deadline) - time.Second)
		shows(t, e.Status(), "a", asOf)
		<-term.Context().Done()
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		if !s.LeaderAsOf.IsZero() || s.State != backend.Lost || !errors.Is(s.Err, elector.ErrSessionLost) || !s.ErrAt.Equal(time.Now()) {
			t.Errorf("after its window: %+v", s)
		}
	})
}

// While no server can be reached a campaign says what is wrong, and when it tries again.
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
			if !errors.Is(s.Err, backend.ErrUnavailable) || s.ErrAt.Before(began) || !s.NextTry.After(time.Now()) {
				t.Fatalf("it tries again: %+v", s)
			}
			began = s.NextTry
			time.Sleep(time.Until(s.NextTry))
			synctest.Wait()
		}
		service.Start()
		time.Sleep(time.Minute)
		if s := e.Status(); s.Role != elector.RoleLeading || !s.NextTry.IsZero() || !errors.Is(s.Err, backend.ErrUnavailable) {
			t.Errorf("it has come to lead: %+v", s)
		}
	})
}

// An application that is not fit is why a candidate does not stand.
func TestStatusOfOneThatIsNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ill error = errors.New("disk full")
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Fit.Check = func(context.Context) error { return ill }
		})
		campaigns(t, e)
		if s := e.Status(); s.Role != elector.RoleEntering || !errors.Is(s.Err, elector.ErrUnfit) || !strings.Contains(s.Err.Error(), "disk full") {
			t.Errorf("%+v", s)
		}
	})
}

// A lead function that goes on after its term shows, and so does the pause after one that has failed.
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
		if s.Token != token || s.Place != 0 || s.State != backend.Lost {
			t.Errorf("its lead function goes on: %+v", s)
		}
		release <- failed
		synctest.Wait()
		s = e.Status()
		has(t, s, elector.RoleIdle, time.Now())
		if !errors.Is(s.Err, failed) || !s.NextTry.After(time.Now()) {
			t.Errorf("its lead function has failed: %+v", s)
		}
		time.Sleep(time.Minute)
		if s = e.Status(); s.Role != elector.RoleLeading || s.Token <= token || !s.NextTry.IsZero() {
			t.Errorf("it leads again: %+v", s)
		}
		cancel()
		release <- nil
		running.Wait()
	})
}

// Status asks for nothing, whatever the elector is doing, and may be called at any time by many.
func TestStatusAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		b := meter.New(service.Client("a"), nil)
		e := standing(t, b, "a")
		quiet := func() {
			t.Helper()
			synctest.Wait()
			before := b.Counts()
			for range 1000 {
				e.Status()
			}
			if after := b.Counts(); after != before {
				t.Errorf("%+v after Status, and %+v before", after, before)
			}
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
			term, err := e.Campaign(t.Context())
			require.NoError(t, err)
			quiet()
			require.NoError(t, term.Resign(t.Context()))
			quiet()
		}
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		service.Client("a").Suspend()
		time.AfterFunc(5*time.Second, service.Client("a").Resume)
		assert.NoError(t, e.Close(t.Context()))
		quiet()
		close(over)
		looking.Wait()
		if s := e.Status(); s.Role != elector.RoleClosed || s.State != backend.Lost {
			t.Errorf("after Close: %+v", s)
		}
	})
}

// A hook that does not return keeps Close waiting, and no Status.
func TestStatusWhileCloseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Hooks.Ended = func(*elector.Term, error) { <-release }
		})
		term, err := e.Campaign(t.Context())
		require.NoError(t, err)
		var closing sync.WaitGroup
		closing.Go(func() { _ = e.Close(context.Background()) })
		synctest.Wait()
		if s := e.Status(); s.Role != elector.RoleLeaving || s.Token != term.Token() {
			t.Errorf("while Close waits: %+v", s)
		}
		close(release)
		closing.Wait()
		if s := e.Status(); s.Role != elector.RoleClosed || s.Token != 0 {
			t.Errorf("after Close: %+v", s)
		}
	})
}

// A status in JSON tells its error, and leaves out what is not known.
func TestStatusInJSON(t *testing.T) {
	status := elector.Status{
		Role: elector.RoleStanding, Place: 2, Err: errors.New("disk full"), State: backend.Suspended, Session: "7",
		Leader: elector.Leader{ID: "a", Token: 5, Value: []byte("http://a")},
	}
	text, err := json.Marshal(status)
	require.NoError(t, err)
	require.Equal(t, `{"role":"standing","place":2,"leader":{"id":"a","value":"aHR0cDovL2E=","text":"http://a","token":5},`+
		`"session":{"id":"7","state":"suspended","deadline":"0001-01-01T00:00:00Z"},"err":"disk full"}`, string(text))
	var again elector.Status
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, status, again)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"session":{"state":"asleep"}}`), &again), "asleep")

	status = elector.Status{Leader: elector.Leader{ID: "a", Value: []byte{0xff}}}
	text, err = json.Marshal(status)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"text"`)
	for role := elector.Role(0); role <= elector.RoleClosed; role++ {
		var again elector.Role
		text, _ := role.MarshalText()
		if err := again.UnmarshalText(text); err != nil || again != role {
			t.Errorf("%q is read as %v: %v", text, again, err)
		}
	}
	var none elector.Role
	if err := none.UnmarshalText([]byte("master")); err == nil {
		t.Error("there is a role master")
	}
}
