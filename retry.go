package elector

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
)

// temporary reports whether a campaign that failed with err should try again. err may join several errors: a
// final one decides.
func temporary(err error) bool {
	for _, final := range []error{backend.ErrDenied, backend.ErrBadKey, ErrStrategyMismatch} {
		if errors.Is(err, final) {
			return false
		}
	}
	for _, passing := range []error{
		backend.ErrUnavailable, backend.ErrSessionLost, backend.ErrNoParent, backend.ErrNoEntry, backend.ErrUsedUp,
		backend.ErrExists, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate, backend.ErrStanding,
		ErrUnfit,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// backOff waits before the next attempt. reached is when the last one reached the election, or zero: an attempt
// that lasted does not lengthen the wait before the next.
func (e *elector) backOff(ctx context.Context, b *delay.Backoff, reached time.Time, r RetryEvent) error {
	lo, hi := e.cfg.retry()
	if !reached.IsZero() && time.Since(reached) > hi {
		b.Attempt = 0
	}
	r.Wait = b.Next(lo, hi)
	r.Attempt = b.Attempt
	e.logRetry(r)
	e.noteError(ctx, r.Err)
	defer e.observations.retries(b, r.Wait)()
	hooks := e.hooks
	if r.What == WorkPublish {
		hooks = hooks.own
	}
	hooks.retry(r)
	return delay.Sleep(ctx, r.Wait)
}

// logRetry logs a retry at Warn, but only some of many: a service that is down for a day would fill
// the log. It logs the others at Debug.
func (e *elector) logRetry(r RetryEvent) {
	level, attrs := slog.LevelDebug, []any{"what", r.What.String(), "attempt", r.Attempt, "wait", r.Wait, "err", r.Err}
	if leftOut, allowed := e.retryLog.Allow(time.Now()); allowed {
		level = slog.LevelWarn
		if leftOut > 0 {
			attrs = append(attrs, "leftOut", leftOut)
		}
	}
	if r.Term != nil {
		attrs = append(attrs, "token", r.Term.Token())
	}
	e.log.Log(context.Background(), level, "trying again", attrs...)
}

// reportWait reports that the campaign waits until nobody stands in a directory that takes no more entries, or
// leads in one that is gone.
func (e *elector) reportWait(dir string, why error) {
	e.noteError(e.ctx, why)
	e.log.Warn("waiting for the last candidate in the election's directory: it is used up or gone", "dir", dir, "err", why)
	e.hooks.retry(RetryEvent{What: WorkCampaign, Err: why})
}
