package driver

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Pause is the time between two tries of a request. It grows from some 20 milliseconds to half a second on average,
// and is random, so that requests refused together do not return together. Its zero value is ready.
type Pause struct{ tries int }

const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Next returns how long to wait before the next try.
func (p *Pause) Next() time.Duration {
	d := min(firstPause<<p.tries, longestPause)
	p.tries = min(p.tries+1, 16)
	return d/2 + rand.N(d)
}

// Wait waits until the next try is due. It returns false if ctx ends first.
func (p *Pause) Wait(ctx context.Context) bool {
	select {
	case <-time.After(p.Next()):
		return true
	case <-ctx.Done():
		return false
	}
}

// A Bout is a series of tries of one request that did not get what was asked for. Failures that may pass
// are ridden out, but not silently forever: while heartbeats succeed, nothing else would tell the caller
// that it gets no further. Its zero value is ready to use.
type Bout struct {
	began time.Time
	tries int
}

// Fewest is the minimum number of tries in a Bout: a few broken links are not enough.
const Fewest = 5

// Over notes a try, and reports whether to give up: there were at least Fewest tries, and the first was
// longer ago than patience, which usually is the session's timeout.
func (b *Bout) Over(patience time.Duration) bool {
	if b.tries++; b.tries == 1 {
		b.began = time.Now()
	}
	return b.tries >= Fewest && time.Since(b.began) > patience
}

// First reports whether the last try that Over noted is the only one.
func (b *Bout) First() bool { return b.tries == 1 }

// Pause waits for the next try of a request. The error is that of Over.
func (l *Life) Pause(ctx context.Context, p *Pause) error {
	bound, cancel := l.Bind(ctx)
	defer cancel()
	p.Wait(bound)
	return l.Over(ctx)
}

// Call runs do, which may block and heeds no ctx, on a goroutine of the session. It waits for do, for ctx,
// or for the session's end. A do that is left behind must end by itself: Close waits for it.
func Call[T any](ctx context.Context, l *Life, do func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if err := l.Over(ctx); err != nil {
		return none, err
	}
	answer := make(chan result, 1)
	if !l.Run(func() {
		v, err := do()
		answer <- result{v, err}
	}) {
		return none, l.LostError()
	}
	select {
	case r := <-answer:
		return r.v, r.err
	case <-ctx.Done():
	case <-l.Ctx.Done():
	}
	return none, l.Over(ctx)
}
