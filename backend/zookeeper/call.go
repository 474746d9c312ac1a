package zookeeper

import (
	"context"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// awaitLive blocks until the session is in touch on a link later than the given
// one, and returns which.
func (s *session) awaitLive(ctx context.Context, after uint64) (uint64, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, backend.ContextError(ctx)
		}
		s.mu.Lock()
		state, gen, changed := s.state, s.gen, s.changed
		s.mu.Unlock()
		switch {
		case state == backend.Lost:
			return 0, s.lostError()
		case state == backend.Live && gen > after:
			return gen, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// call runs a blocking call of the client library, which knows no ctx, and waits
// for it, or for ctx, or for the end of the session. A call that is left behind
// ends with its answer, its link, or the session.
func call[T any](ctx context.Context, s *session, do func() (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, backend.ContextError(ctx)
	}
	if !s.begin() {
		return zero, s.lostError()
	}
	type result struct {
		v   T
		err error
	}
	answer := make(chan result, 1)
	go func() {
		defer s.calls.Done()
		v, err := do()
		answer <- result{v, err}
	}()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-ctx.Done():
		return zero, backend.ContextError(ctx)
	case <-s.ctx.Done():
		return zero, s.lostError()
	}
}

// read runs a call that may be repeated until it is answered. An answer that is
// too long breaks the link, so that asking again would do so for ever; reads that
// were under way on the same link fail with it.
func read[T any](ctx context.Context, s *session, do func() (T, error)) (T, error) {
	for after := uint64(0); ; {
		gen, err := s.awaitLive(ctx, after)
		if err != nil {
			var zero T
			return zero, err
		}
		oversize := s.oversize.Load()
		v, err := call(ctx, s, do)
		switch {
		case !transient(err):
			return v, err
		case s.oversize.Load() != oversize:
			return v, fmt.Errorf("an answer was over Config.MaxResponse (%d bytes): %w", s.cfg.MaxResponse, err)
		}
		after = gen
	}
}
