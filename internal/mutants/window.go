package mutants

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// windowMutants break rules about the trust window.
func windowMutants() []Mutant {
	return []Mutant{
		{
			Name:   "window anchored at the answer",
			Breaks: "Heartbeats take a quarter of the timeout on their way, and the window counts from the answer instead of the sending.",
			Rules:  map[string][]string{Backend: {"session/suspended-too-long"}, "fair": {"loss/long-cut"}},
			session: calls(func(s *backend.Session, o *over) {
				o.trustLonger(s.TTL() / 4)
			}),
		},
		{
			Name:    "window that never ends",
			Breaks:  "The deadline is ahead of the clock whenever somebody looks, whatever was heard of the session.",
			Rules:   map[string][]string{Backend: {"session/suspended-too-long", "session/lost-for-good"}, "fair": {"loss/deadline", "fence/overdue"}},
			session: calls(aheadOfClock),
			trusted: calls(aheadOfClock),
		},
		{
			Name:   "window not extended",
			Breaks: "The deadline stays where it was when the session was opened, however many heartbeats are answered.",
			Rules:  map[string][]string{Backend: {"session/deadline"}, "fair": {"loss/short-cut-held"}},
			session: calls(func(s *backend.Session, o *over) {
				first := s.Deadline()
				o.deadline = func() time.Time { return first }
			}),
		},
	}
}

func aheadOfClock(s *backend.Session, o *over) {
	o.deadline = func() time.Time { return time.Now().Add(s.TTL()) }
}

// trustLonger has the window end that much too late.
func (s *over) trustLonger(extra time.Duration) {
	at := s.Session
	var closed atomic.Bool
	s.deadline = func() time.Time { return at.Deadline().Add(extra) }
	// wait blocks until the session is lost by this clock, if it was by the right one.
	wait := func(ctx context.Context) error {
		end := at.Deadline()
		if closed.Load() || time.Now().Before(end) { // not by the clock, that is
			return nil
		}
		timer := time.NewTimer(time.Until(end.Add(extra)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.failed = func(err error) error {
		if errors.Is(err, backend.ErrSessionLost) {
			_ = wait(context.Background()) // the error is the context's only
		}
		return err
	}
	s.state = func() backend.State {
		state := at.State()
		now, end := time.Now(), at.Deadline()
		if state == backend.Lost && !closed.Load() && !now.Before(end) && now.Before(end.Add(extra)) {
			return backend.Suspended
		}
		return state
	}
	s.awaitState = func(ctx context.Context, prev backend.State) (backend.State, error) {
		state, err := at.AwaitState(ctx, prev)
		if err != nil || state != backend.Lost {
			return state, err
		}
		if now := s.state(); now != prev {
			return now, nil
		}
		return backend.Lost, wait(ctx)
	}
	s.close = func(ctx context.Context) error {
		closed.Store(true)
		return at.Close(ctx)
	}
}
