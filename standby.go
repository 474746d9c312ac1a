package elector

import (
	"context"
	"errors"
	"fmt"
)

// A standby is the call of Config.Standby for one campaign. It is nil if Config.Standby is nil.
type standby struct {
	elected chan struct{}      // closed when the candidate has won
	done    chan struct{}      // closed when Standby has returned
	cancel  context.CancelFunc // ends its ctx, and the campaign's
	// To be read after done is closed: whether lead can begin, and the error of Standby, unless it only
	// says that its ctx has ended.
	ready  bool
	failed error
}

// prepare calls the Standby of an elector made by New. It returns the ctx of the campaign, which also
// ends when Standby fails.
func prepare(ctx context.Context, e Elector) (campaign context.Context, s *standby) {
	made, is := e.(*elector)
	if !is || made.cfg.Standby == nil {
		return ctx, nil
	}
	campaign, withdraw := context.WithCancel(ctx)
	preparing, cancel := context.WithCancel(ctx)
	s = &standby{elected: make(chan struct{}), done: make(chan struct{}), cancel: func() { cancel(); withdraw() }}
	go func() {
		defer close(s.done)
		s.failed = errors.New("it has ended its goroutine (runtime.Goexit, or FailNow of a test)")
		defer func() {
			s.ready = s.failed == nil && preparing.Err() == nil
			if preparing.Err() != nil { // it had to return
				s.failed = unlessCancelled(s.failed)
			}
			if s.failed != nil {
				s.failed = fmt.Errorf("elector: standby of %s: %w", made.cfg.Election, s.failed)
				withdraw()
			}
		}()
		s.failed = made.cfg.Standby(preparing, s.elected)
	}()
	return campaign, s
}

// before returns a lead function that calls lead after Standby has returned.
func (s *standby) before(lead func(context.Context, *Term) error) func(context.Context, *Term) error {
	if s == nil {
		return lead
	}
	return func(ctx context.Context, t *Term) error {
		close(s.elected)
		select {
		case <-s.done:
		case <-ctx.Done():
			_ = s.end()
			return ctx.Err()
		}
		switch {
		case s.ready:
			return lead(ctx, t)
		case s.failed != nil:
			return s.failed
		}
		return context.Canceled // the ctx of Run has ended, and so does ctx
	}
}

// end ends Standby's ctx, and waits until Standby has returned. It returns s.failed.
func (s *standby) end() error {
	if s == nil {
		return nil
	}
	s.cancel()
	<-s.done
	return s.failed
}
