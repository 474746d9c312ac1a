package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var errSilent = errors.New("no answer in time")

// limited returns a ctx for requests that ends with ctx, or when the limit has passed. It does not have
// ctx's cause: net/http puts the cause of a cancelled request into the error of the next one on its
// connection, where "session lost" would look like this session's.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, cancel)
	return own, func() { stop(); cancel() }
}

// bounded runs one request with its own time limit. The error is ctx's only if ctx has ended.
func bounded[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	own, cancel := limited(ctx, limit)
	defer cancel()
	v, err := do(own)
	return v, outcome(ctx, own, limit, err)
}

// outcome returns the error of a request that was bounded by own, of ctx.
func outcome(ctx, own context.Context, limit time.Duration, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = driver.ContextError(ctx)
	case own.Err() != nil:
		err = fmt.Errorf("%w (%v)", errSilent, limit)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %v", errSilent, err) // by the client itself
	}
	return err
}

// enter waits for its turn. The caller receives from turns when it is over.
func (s *session) enter(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-s.Ctx.Done():
	}
	return s.Over(ctx)
}

// inLine is the error of a request that was given up before it was sent.
type inLine struct{ error }

func (e inLine) Unwrap() error { return e.error }

// once runs one request of the session, which may still be answered for a grace period after the
// session has ended. The reply to a request that was in time is returned in any case.
func once[T any](ctx context.Context, s *session, grace time.Duration, do func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := s.Over(ctx); err != nil {
		return zero, inLine{err}
	}
	if err := s.enter(ctx, s.requests); err != nil {
		return zero, inLine{err}
	}
	defer func() { <-s.requests }()
	own, cancel := limited(ctx, s.patience)
	defer cancel()
	defer context.AfterFunc(s.Ctx, func() { time.AfterFunc(grace, cancel) })()
	v, err := do(own)
	if err != nil && s.Ctx.Err() != nil {
		return v, s.LostError()
	}
	if err = outcome(ctx, own, s.patience, err); ctx.Err() == nil && speechless(err) {
		s.trouble()
	}
	return v, err
}

// onceLast is once for a read: some of the requests that may be pending are kept for commits, which need not wait for
// reads that hang.
func onceLast[T any](ctx context.Context, s *session, do func(context.Context) (T, error)) (T, error) {
	if err := s.enter(ctx, s.reads); err != nil {
		var zero T
		return zero, inLine{err}
	}
	defer func() { <-s.reads }()
	return once(ctx, s, 0, do)
}

// ride runs a request that may be repeated, until it is answered. See bout for when it gives up.
func ride[T any](ctx context.Context, s *session, do func(context.Context) (T, error)) (T, error) {
	var refused bout
	for pause := (driver.Pause{}); ; {
		refused.pauses(s)
		if err := s.AwaitLive(ctx); err != nil {
			var zero T
			return zero, err
		}
		v, err := onceLast(ctx, s, do)
		if err == nil && s.Ctx.Err() != nil {
			return v, s.LostError()
		}
		if !transient(err) || refused.ends(s, err) {
			if err != nil {
				err = answerError(err)
			}
			return v, err
		}
		if why := s.Pause(ctx, &pause); why != nil {
			if !errors.Is(why, backend.ErrSessionLost) {
				why = fmt.Errorf("%w (%v)", why, answerError(err))
			}
			return v, why
		}
	}
}

// silent returns errSilent for an error by ctx or a time limit, and err for all others.
func silent(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errSilent
	}
	return err
}
