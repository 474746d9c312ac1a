package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/elector-go/elector/backend"
)

// session returns the current session, or opens a new one.
func (e *elector) session(ctx context.Context) (*backend.Session, error) {
	if e.hooks.calling() {
		// The next session waits for the hook that reports this one's end.
		e.mu.Lock()
		s := e.sess
		e.mu.Unlock()
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
	e.mu.Lock()
	old := e.sess
	e.mu.Unlock()
	if old != nil && old.State() != backend.Lost {
		return old, nil
	}
	// It may be Lost because Close is closing it; ctx must not cut that short.
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	standing := false
	if old != nil {
		// Lost is final; this only waits for its goroutines.
		done, cancel := context.WithTimeout(ctx, cleanupTimeout)
		err := old.Close(done)
		cancel()
		standing = errors.Is(err, backend.ErrStanding)
		if err != nil {
			e.log.Debug("lost session not closed cleanly", "session", old.ID(), "err", err)
		}
		// Its Lost is reported before the next one's Live.
		select {
		case <-e.followed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	quiet := e.hooks.Session == nil && !e.log.Enabled(ctx, slog.LevelInfo)
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
			e.standing = append(e.standing, old)
		}
		followed := make(chan struct{})
		e.followed = followed
		if quiet {
			close(followed) // nobody needs a monitor
		} else {
			e.wg.Go(func() { defer close(followed); e.monitor(s) })
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

// catchUp makes a new session read at least what was there when it was opened.
func (e *elector) catchUp(ctx context.Context, s *backend.Session) error {
	key := e.cfg.Election
	if key == "/" { // Kafka's path; no entry can be there
		key = "/controller"
	}
	return s.CatchUp(ctx, key)
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

// clear removes this candidate's entries from sessions that it has given up but that live on because
// others share them. A campaign beside such an entry would wait for itself.
func (e *elector) clear(ctx context.Context) error {
	e.mu.Lock()
	left := e.standing
	e.standing = nil
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
			e.standing = append(e.standing, s)
			e.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// giveUp ends the session, and all its entries with it.
func (e *elector) giveUp(s *backend.Session) {
	ctx, cancel := cleanup(context.Background())
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.log.Warn("session not closed cleanly", "session", s.ID(), "err", err)
	}
}
