package driver

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Pause is the time between two tries of a request: longer each time, from some 20 milliseconds
// to half a second, and never the same, lest all who were refused together come back together. Its
// zero value is ready.
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

// Wait waits until it is time for the next try; it returns false if ctx ends before.
func (p *Pause) Wait(ctx context.Context) bool {
	select {
	case <-time.After(p.Next()):
		return true
	case <-ctx.Done():
		return false
	}
}

// A Bout is a series of tries of one request that were not answered with what was asked for. What
// may pass is ridden out, but not for ever without a word: while heartbeats succeed nobody else
// would tell the caller that it gets no further. Its zero value is ready.
type Bout struct {
	began time.Time
	tries int
}

// Fewest is how many tries make a Bout at least: a few links that broke are none.
const Fewest = 5

// Over notes a try, and tells whether to give up: there were Fewest, and the first is longer ago
// than patience, which is the session's timeout as a rule.
func (b *Bout) Over(patience time.Duration) bool {
	if b.tries++; b.tries == 1 {
		b.began = time.Now()
	}
	return b.tries >= Fewest && time.Since(b.began) > patience
}

// First tells whether the try that Over has noted last is the only one.
func (b *Bout) First() bool { return b.tries == 1 }

// Pause waits for the next try of a request. The error is that of Over.
func (l *Life) Pause(ctx context.Context, p *Pause) error {
	bound, cancel := l.Bind(ctx)
	defer cancel()
	p.Wait(bound)
	return l.Over(ctx)
}

// Call has do, which may block and heeds no ctx, done on a goroutine of the session's, and waits for
// it, or for ctx, or for the session's end. What is left behind has to end by itself: Close waits
// for it.
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
