package attempt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const timeout = 4 * time.Second

// server is one that stands still at times.
type server struct {
	still  chan time.Duration // for so long
	lose   chan time.Duration // and have lost the session then
	expire chan error         // ends the session
	open   func() error       // before the session is there
}

func newServer() *server {
	return &server{still: make(chan time.Duration), lose: make(chan time.Duration), expire: make(chan error, 1), open: func() error { return nil }}
}

func (s *server) control(ctx context.Context, answered func(time.Time)) error {
	if err := s.open(); err != nil {
		return err
	}
	return Every(ctx, timeout, answered, func() error {
		select {
		case d := <-s.still:
			time.Sleep(d)
		case d := <-s.lose:
			time.Sleep(d)
			return errors.Join(ErrLost, errors.New("of old age"))
		case err := <-s.expire:
			return err
		default:
		}
		return nil
	})
}

func TestEnvironmentIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Observe(t, timeout, newServer().control)
		began := time.Now()
		time.Sleep(time.Minute)
		if why := e.Trouble(began, time.Now()); why != "" {
			t.Error(why)
		}
	})
}

// A server that stands still is noticed when it has cost three eighths of the timeout, at the
// end of a stretch, too, and not outside of it.
func TestServerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		time.Sleep(timeout)
		before := time.Now()
		s.still <- timeout * 3 / 8
		began := time.Now()
		time.Sleep(timeout * 3 / 8)
		during := time.Now()
		check(t, e, before.Add(-timeout), before.Add(-timeout/2), "")
		check(t, e, began, during, "answered the bare client")
		time.Sleep(timeout)
		check(t, e, before.Add(-timeout), time.Now(), "more than a quarter")
		check(t, e, during.Add(timeout/2), time.Now(), "")

		s.still <- timeout / 5 // backends bear that
		began = time.Now()
		time.Sleep(timeout)
		check(t, e, began, time.Now(), "")

		s.still <- 2 * timeout
		began = time.Now()
		time.Sleep(timeout / 2)
		check(t, e, began, time.Now(), "quarter")
		time.Sleep(2 * timeout)
		check(t, e, began, time.Now(), "longer than the session timeout")
		if why := e.Clock().Trouble(began, time.Now()); why != "" {
			t.Errorf("this process was not starved: %s", why)
		}
		time.Sleep(timeout) // the control has nothing on its way any more
	})
}

func TestSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		time.Sleep(timeout)
		began := time.Now()
		s.lose <- timeout
		time.Sleep(5 * timeout / 4)
		check(t, e, began, time.Now(), "of old age")
		time.Sleep(timeout)
		check(t, e, began, time.Now(), "of old age")
		check(t, e, began.Add(2*timeout), time.Now(), "") // it has another one
		s.expire <- errors.New("one request was refused")
		began = time.Now()
		time.Sleep(timeout)
		check(t, e, began, time.Now(), "")
	})
}

// A session that is lost although all answers came in time was ended by somebody: what is
// tested, perhaps. That is no excuse.
func TestSessionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := &scribe{TB: t}
		e := Observe(l, timeout, s.control)
		time.Sleep(timeout)
		began := time.Now()
		s.expire <- errors.Join(ErrLost, errors.New("revoked"))
		time.Sleep(timeout)
		check(t, e, began, time.Now(), "")
		if !strings.Contains(l.said.String(), "no fault of theirs: session lost revoked") {
			t.Errorf("nobody hears of it: %q", l.said.String())
		}
	})
}

// Many short standstills starve a session, too.
func TestManyStandstills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		time.Sleep(timeout)
		began := time.Now()
		for range 20 { // each for a fifth of the timeout
			s.still <- timeout / 5
		}
		check(t, e, began, time.Now(), "in all within half a session timeout")
		time.Sleep(3 * timeout)
		began = time.Now()
		for range 2 { // the two requests of a heartbeat take all its slack
			s.still <- timeout * 3 / 16
		}
		check(t, e, began, time.Now(), "in all within half a session timeout")
		time.Sleep(3 * timeout)
		began = time.Now()
		for range 20 { // a slow server
			s.still <- timeout / 25
		}
		check(t, e, began, time.Now(), "")
		if said, want := e.Latest(began, time.Now()), "the clock was late by 0s at most, with server 1 by 960ms; 1s would be too late"; !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	})
}

// Four answers may each meet another standstill within a session's window: together they starve it.
func TestFourStandstillsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		for _, c := range []struct {
			still, between time.Duration
			times          int
			want           string
		}{
			{timeout / 15, timeout / 10, 4, "in 4 answers within 3.5s"},
			{timeout / 15, timeout / 10, 2, ""},
			{timeout / 15, timeout / 2, 4, ""}, // not all in one window
			{timeout / 7, timeout / 2, 2, "in 2 answers within 3.5s"},
			{timeout / 8, timeout / 2, 2, ""},
		} {
			time.Sleep(3 * timeout)
			began := time.Now()
			for range c.times {
				s.still <- c.still
				time.Sleep(c.still + c.between)
			}
			check(t, e, began, time.Now(), c.want)
		}
	})
}

// What the clock and a server are late by, one after the other, starves a session, too. What
// both are late by at once counts once.
func TestClockAndServer(t *testing.T) {
	for name, c := range map[string]struct {
		still time.Duration // of the server, after which the clock is as late
		want  string
	}{
		"one after the other": {timeout / 7, "in all within half a session timeout"},
		"at once":             {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				e := Observe(t, timeout, s.control)
				time.Sleep(timeout)
				began := time.Now()
				s.still <- timeout / 7
				time.Sleep(c.still)
				time.Sleep(timeout / 7)
				e.clock.beat(time.Now().Add(-timeout / 7))
				time.Sleep(timeout)
				check(t, e, began, time.Now(), c.want)
			})
		})
	}
}

func TestCovered(t *testing.T) {
	at := func(from, over time.Duration) wait {
		start := time.Unix(0, 0)
		return wait{over: start.Add(over), took: over - from}
	}
	for _, c := range []struct {
		waits []wait
		want  time.Duration
	}{
		{nil, 0},
		{[]wait{at(1, 3)}, 2},
		{[]wait{at(1, 3), at(5, 6)}, 3},
		{[]wait{at(1, 3), at(2, 6)}, 5},
		{[]wait{at(2, 3), at(1, 6), at(4, 5)}, 5},
		{[]wait{at(1, 2), at(2, 2), at(2, 4)}, 3},
	} {
		if got := covered(c.waits); got != c.want {
			t.Errorf("%v cover %d, want %d", c.waits, got, c.want)
		}
	}
}

// Each server of several has a control: one that stands still is enough.
func TestOneServerOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := []*server{newServer(), newServer(), newServer()}
		e := Observe(t, timeout, servers[0].control, servers[1].control, servers[2].control)
		time.Sleep(timeout)
		began := time.Now()
		servers[2].still <- timeout / 2
		time.Sleep(timeout)
		check(t, e, began, time.Now(), "stood still")
		check(t, e.Clock(), began, time.Now(), "")
	})
}

// A client library that is refused for ever does not keep the control from another session.
func TestRefusedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := 0
		e := Observe(t, timeout, func(ctx context.Context, answered func(time.Time)) error {
			sessions++
			began, first := time.Now(), sessions == 1
			return Every(ctx, timeout, answered, func() error {
				if first && time.Since(began) > timeout {
					return errors.New("refused")
				}
				return nil
			})
		})
		began := time.Now()
		time.Sleep(5 * timeout)
		check(t, e, began, time.Now(), "no answer for two session timeouts: refused")
		check(t, e, began.Add(4*timeout), time.Now(), "")
	})
}

// Without a first session the tests begin all the same, and are void.
func TestNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.open = func() error { return errors.New("nobody is there") }
		e := Observe(t, timeout, s.control)
		time.Sleep(timeout)
		check(t, e, time.Now().Add(-timeout), time.Now(), "nobody is there")
	})
}

// A clock that ticks late tells that this process stood still.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(timeout, timeout/tickShare, "it ticked", func(spell) {}, func(string) {})
		began := time.Now()
		for range 10 {
			time.Sleep(timeout / tickShare)
			p.beat(time.Now())
		}
		time.Sleep(timeout / 4)
		p.beat(time.Now())
		if why, _ := p.look(began, time.Now()); why != "" {
			t.Error(why)
		}
		time.Sleep(timeout * 3 / 8)
		if why, _ := p.look(began, time.Now()); !strings.Contains(why, "1.42s late") {
			t.Errorf("before the tick: %q", why)
		}
		p.beat(time.Now())
		if why, _ := p.look(began, time.Now()); !strings.Contains(why, "1.42s late") {
			t.Errorf("after the tick: %q", why)
		}
	})
}

func check(t *testing.T, e Observer, from, to time.Time, want string) {
	t.Helper()
	why := e.Trouble(from, to)
	if want == "" && why != "" || !strings.Contains(why, want) {
		t.Errorf("environment: %q, want %q", why, want)
	}
}
