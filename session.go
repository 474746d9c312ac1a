package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/elector-go/elector/backend"
)

// cleanupTimeout bounds how long a call that has failed, or whose ctx has ended, waits for the service to
// confirm that an entry is gone. After that the session continues in the background.
const cleanupTimeout = 2 * time.Second

// cleanup returns a context with that timeout and the values of ctx.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// session returns the current session, or opens a new one.
func (e *elector) session(ctx context.Context) (*backend.Session, error) {
	if e.hooks.calling() {
		// The next session waits for the hook that reports this one's end.
		_, s := e.current()
		if s == nil || s.State() == backend.Lost {
			return nil, fmt.Errorf("there is no session: %w", ErrInHook)
		}
		return s, nil
	}
	select {
	case e.opening <- struct{}{}:
		defer func() { <-e.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	_, old := e.current()
	if old != nil && old.State() != backend.Lost {
		return old, nil
	}
	// old may be Lost because Close is closing it. awaitEnd would close it, too, and if its ctx ended, cut
	// that short.
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	standing := false
	if old != nil {
		var err error
		if standing, err = e.awaitEnd(ctx, old); err != nil {
			return nil, err
		}
	}
	quiet := e.hooks.Session == nil && !e.log.Enabled(ctx, slog.LevelInfo) // before the lock: Enabled is the user's
	s, err := e.openSession(ctx)
	if err != nil {
		return nil, err
	}
	// Under the lock, so that Close finds the session or this finds it closed.
	e.mu.Lock()
	closed := e.ctx.Err() != nil
	if !closed {
		e.sess = s
		if old != nil {
			e.behind = s.ID()
		}
		if standing {
			e.leftover = append(e.leftover, old)
		}
		monitored := make(chan struct{})
		e.monitored = monitored
		if quiet {
			close(monitored) // nobody needs a monitor
		} else {
			e.wg.Go(func() { defer close(monitored); e.monitor(s) })
		}
	}
	e.mu.Unlock()
	if closed {
		done, cancel := cleanup(ctx)
		defer cancel()
		return nil, errors.Join(ErrClosed, s.Close(done))
	}
	return s, nil
}

// awaitEnd waits until a lost session's goroutines have ended, and its Lost has been reported, which comes
// before the next session's Live. It reports whether an entry is left in the session, which others share.
func (e *elector) awaitEnd(ctx context.Context, lost *backend.Session) (standing bool, err error) {
	done, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if err = lost.Close(done); err != nil {
		e.log.Debug("lost session not closed cleanly", "session", lost.ID(), "err", err)
	}
	select {
	case <-e.monitored:
		return errors.Is(err, backend.ErrStanding), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// openSession opens a session. A server that accepts the connection and then does not answer counts as
// unavailable after a while, so that the user is told.
func (e *elector) openSession(ctx context.Context) (*backend.Session, error) {
	const patience = 10 * time.Second
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := e.cfg.Backend.Open(trying, backend.OpenOptions{TTL: e.cfg.TTL})
	if err != nil {
		if trying.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no session after %v: %w: %w", patience, backend.ErrUnavailable, err)
		}
		return nil, err
	}
	e.log.Debug("session opened", "session", s.ID(), "ttl", s.TTL())
	return s, nil
}

// notBefore ensures that s shows nothing older than an earlier session has shown. Otherwise an observer
// would report a vacancy that ended long ago.
func (e *elector) notBefore(ctx context.Context, s *backend.Session) error {
	e.mu.Lock()
	behind := e.behind == s.ID()
	e.mu.Unlock()
	if !behind {
		return nil
	}
	if err := e.election.CatchUp(ctx, s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.behind == s.ID() {
		e.behind = ""
	}
	return nil
}

// monitor reports the states of one session to the hook and the log until the session is lost.
func (e *elector) monitor(s *backend.Session) {
	suspended := false
	for state := backend.Live; ; {
		level := slog.LevelDebug
		if state == backend.Suspended || state == backend.Live && suspended {
			level = slog.LevelInfo // the term's end or the next attempt reports the others
		}
		suspended = state == backend.Suspended
		e.log.Log(context.Background(), level, "session "+state.String(), "session", s.ID())
		e.hooks.own.session(s.ID(), state)
		if state == backend.Lost {
			return
		}
		var err error
		if state, err = s.AwaitState(context.Background(), state); err != nil {
			e.log.Error("session cannot be followed", "session", s.ID(), "err", err)
			return // the background context does not end: the backend breaks its contract
		}
	}
}

// surveyed returns s for a strategy, with surveys from time to time while the strategy waits. If a survey finds
// strangers, the wait fails, so that the candidate withdraws.
func (e *elector) surveyed(s *backend.Session) *backend.Session {
	v := e.election.NewSurveyor(s, e.cfg.SurveyEvery)
	if v == nil {
		return s
	}
	survey := func(ctx context.Context) error {
		err := v.Survey(ctx)
		if err != nil {
			e.log.Error("strangers found", "err", err)
			e.hooks.occupied(nil, err)
		}
		return err
	}
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList:
			return v.Watch(ctx, survey, next)
		}
		return next(ctx)
	}})
}

// The functions below, and resign and release of a tenure, remove an entry of this candidate, or end the session
// that holds it. None leaves an entry behind that nobody removes. "Later" means that the call returns an error,
// and the session continues to remove the entry in the background, for as long as it lives.
//
//	          who calls it                   ctx ends          the service refuses    the session is lost
//	withdraw  a candidate that has not won   2 s, then later   as discard             as discard
//	resign    Term.Resign, Run, Close        as release        as release             as discard
//	release   resign, windUp                 as discard        as discard             as discard
//	discard   withdraw, resign, release      later             closes the session     done: so is the entry
//	giveUp    a hook's or layer's panic, a   has no ctx: after 2 s the service ends   done
//	          seat that cannot be watched    the session with its timeout
//	clear     open, Close                    the next call tries again: Campaign backs off before it
//
// A session that others share lives on after its Close, and with it an entry that is not removed yet: then
// Close returns backend.ErrStanding. discard returns that error, too. clear closes such a session again.

// withdraw removes the entry of a candidate that does not lead. It waits for the confirmation, for
// cleanupTimeout at most, even if ctx has ended.
func (e *elector) withdraw(ctx context.Context, s *backend.Session, entry backend.Entry) error {
	return e.hooks.stop(nil, func() error {
		ctx, cancel := cleanup(ctx) // begins after the hook has returned, which may take longer
		defer cancel()
		return e.discard(ctx, s, entry)
	})
}

// discard removes an entry of a session. If ctx ends before the service confirms the removal, the
// session continues it in the background. If the service refuses it, such as for missing rights,
// discard closes the session, and the entry with it. A shared session lives on: the error is ErrStanding.
func (e *elector) discard(ctx context.Context, s *backend.Session, entry backend.Entry) error {
	err := s.Discard(ctx, entry)
	switch {
	case err == nil, errors.Is(err, ErrSessionLost):
		return nil
	case ctx.Err() != nil:
		return err
	}
	e.log.Error("entry cannot be removed; session given up", "entry", entry.Key, "err", err)
	if closed := s.Close(ctx); closed != nil {
		return errors.Join(err, closed)
	}
	return nil
}

// giveUp ends the session, and all its entries with it.
func (e *elector) giveUp(s *backend.Session) {
	ctx, cancel := cleanup(context.Background())
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.log.Warn("session not closed cleanly", "session", s.ID(), "err", err)
	}
}

// clear removes this candidate's entries from sessions that it has given up but that live on because
// others share them. A campaign beside such an entry would wait for itself.
func (e *elector) clear(ctx context.Context) error {
	e.mu.Lock()
	left := e.leftover
	e.leftover = nil
	e.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	var errs []error
	for _, s := range left {
		if err := s.Close(ctx); err != nil {
			errs = append(errs, err)
			e.mu.Lock()
			e.leftover = append(e.leftover, s)
			e.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}
