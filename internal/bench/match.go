package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy"
)

// countCycles is how often messages are counted.
const countCycles = 50

// A match is candidates in this process, with the bare clients that they are compared with.
type match struct {
	*field
	l   *lab
	raw *rawPair
}

// newMatch makes a match of n candidates, which do not campaign yet.
func (l *lab) newMatch(ctx context.Context, r *rawPair, n int, s strategy.Strategy, path string) (*match, error) {
	f, err := newField(ctx, n, s, path, l.opener())
	if err != nil {
		return nil, err
	}
	m := &match{f, l, r}
	r.idle = m.still
	return m, nil
}

func (m *match) still() error { return m.idle(m.l.cfg.idle) }

// A sampler takes one sample: the duration of something.
type sampler = func() (time.Duration, error)

// timed returns a sampler for an action that is over when do returns.
func timed(do func() error) sampler {
	return func() (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	}
}

// A bout is one step to measure.
type bout struct {
	what string
	// before sets up the state from which do is measured, and after cleans up.
	before, after func() error
	do            sampler
	raw           sampler // the same by the bare client: the limit for do
}

func nothing() error { return nil }

// sample runs the bout and the raw limits in turn, each after the same idle time.
func (m *match) sample(b bout, raws ...sampler) ([]crowd.Quantiles, error) {
	return inTurn(m.l.cfg.samples, append([]sampler{func() (time.Duration, error) {
		if err := errors.Join(b.before(), m.still()); err != nil {
			return 0, err
		}
		d, err := b.do()
		return d, errors.Join(err, b.after())
	}}, raws...)...)
}

// A step is the cost of a bout, for all candidates together.
type step struct {
	trips                       int     // requests until the call has returned
	requests, watches, messages float64 // until all is still, like the next two
	allocations, bytes          float64
}

// count counts the messages and allocations of the bout.
func (m *match) count(b bout) (s step, err error) {
	cycles := min(countCycles, m.l.cfg.samples)
	add := func(to *float64, n int) { *to += float64(n) / float64(cycles) }
	var memory, then runtime.MemStats
	for i := range cycles {
		if err := errors.Join(b.before(), m.still()); err != nil {
			return s, err
		}
		if _, err := m.l.service.messages(); err != nil {
			return s, err
		}
		runtime.ReadMemStats(&memory)
		before := m.l.service.sent()
		if _, err := b.do(); err != nil {
			return s, err
		}
		done := m.l.service.sent()
		if err := m.still(); err != nil {
			return s, err
		}
		still := m.l.service.sent()
		runtime.ReadMemStats(&then)
		n, err := m.l.service.messages()
		if err != nil {
			return s, err
		}
		// The minimum: more may include requests that nobody waits for.
		if trips := done.requests - before.requests; i == 0 || trips < s.trips {
			s.trips = trips
		}
		add(&s.requests, still.requests-before.requests)
		add(&s.watches, still.watches-before.watches)
		add(&s.messages, n)
		add(&s.allocations, int(then.Mallocs-memory.Mallocs))
		add(&s.bytes, int(then.TotalAlloc-memory.TotalAlloc))
		if err := b.after(); err != nil {
			return s, err
		}
	}
	return s, nil
}
