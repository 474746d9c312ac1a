// Package delay waits, and computes how long to wait before a retry.
package delay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Sleep waits for d or until ctx ends, and then returns Ended(ctx).
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Ended(ctx)
	case <-timer.C:
		return nil
	}
}

// Ended returns the error of a ctx that has ended, with its cause if it has one.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// A Backoff is an exponential backoff with equal jitter: half of it is random.
type Backoff struct {
	// Attempt counts the calls of Next.
	Attempt int
}

// Next returns the next delay: lo, doubled with each attempt up to hi, less at most half of it at random.
func (b *Backoff) Next(lo, hi time.Duration) time.Duration {
	d := hi
	if b.Attempt < 30 && lo<<b.Attempt < hi && lo<<b.Attempt > 0 {
		d = lo << b.Attempt
	}
	b.Attempt++
	return d/2 + rand.N(d/2+1)
}
