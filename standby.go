package elector

import (
	"context"
	"errors"
	"fmt"
)

// A standby is the call of Config.Standby for one campaign. A nil standby is that of an elector without.
type standby struct {
	elected chan struct{}      // closed when the candidate has won
	done    chan struct{}      // closed when Standby has returned
	cancel  context.CancelFunc // ends its ctx, and that of the campaign
	// To be read when done is closed: whether lead can begin, and the error of a Standby that has failed
	// by itself.
	ready  bool
	failed error
}

// prepare calls the Standby of an elector that New has made. It returns the ctx of the campaign, which also
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

// before is a lead function that calls lead when Standby has returned.
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
		return context.Canceled // with the ctx of Run, which ends ctx, too
	}
}

// end ends Standby's ctx, and waits until it has returned. The error is that of one that has failed by itself.
func (s *standby) end() error {
	if s == nil {
		return nil
	}
	s.cancel()
	<-s.done
	return s.failed
}
