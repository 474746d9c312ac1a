package elector

import (
	"context"
	"errors"
	"time"
)

// Run campaigns, calls lead while this candidate leads, and campaigns again when
// the term is lost. It returns
//
//   - nil when lead returns nil while its term holds: the work is done;
//   - lead's error if that wraps ErrStop;
//   - the error of a Campaign that is of no use to repeat;
//   - ctx's error, with its cause, when ctx has ended, after lead has returned and
//     the seat has been released.
//
// Otherwise, after an error of lead or a lost term, it resigns what there is to
// resign, so that another candidate gets its chance, and campaigns again after a
// jittered pause that grows while terms are short. An error of lead is part of the
// cause with which the term ends, as Hooks.Ended and the log have it.
//
// lead's ctx ends when the term does or ctx does. Run releases the seat only after
// lead has returned, whatever makes it return, a panic included (which goes on to
// the caller of Run), and begins no new campaign while it runs. So a lead function
// that ignores its ctx keeps the seat, as long as the session lives, and Run does
// not return. A term that is lost is lost all the same: others may lead while such
// a function still runs, and only fencing protects what it writes.
func Run(ctx context.Context, e Elector, lead func(ctx context.Context, t *Term) error) error {
	const shortest, longest, good = 100 * time.Millisecond, 30 * time.Second, 10 * time.Second
	var pause backoff
	for {
		t, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		held, err := leadOnce(ctx, t, lead)
		switch {
		case errors.Is(err, ErrStop):
			return err
		case ctx.Err() != nil:
			return errors.Join(ended(ctx), unlessCancelled(err))
		case held && err == nil:
			return nil
		}
		if time.Since(began) > good {
			pause.attempt = 0
		}
		if cause := sleep(ctx, pause.next(shortest, longest)); cause != nil {
			return errors.Join(cause, unlessCancelled(err))
		}
	}
}

// leadOnce leads for one term and releases the seat, also if lead panics. held
// tells whether the term still held when lead returned.
func leadOnce(ctx context.Context, t *Term, lead func(context.Context, *Term) error) (held bool, err error) {
	leading, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	defer func() {
		held = t.Valid()
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		// An error says that the release is not confirmed yet; it goes on in the
		// background, and Close waits for it, or reports it.
		if why := unlessCancelled(err); why != nil && t.c.failed != nil {
			_ = t.c.failed(done, why)
		} else {
			_ = t.Resign(done)
		}
	}()
	return false, lead(leading, t)
}

// unlessCancelled drops an error that only says what the caller knows already.
func unlessCancelled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
