package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
)

// rawPair is two bare clients: one deletes a key, and the other's watch on it fires. No election by such
// keys can be faster than that.
type rawPair struct {
	owner, watcher bare

	ctx   context.Context
	fired <-chan time.Time // by the watch on the key that is deleted next
	idle  func() error     // blocks for the idle time before a sample
}

// newRawPair connects a pair, and lets the server compile its code and fill its caches before anything is
// measured. The caller closes the pair.
func (l *lab) newRawPair(ctx context.Context) (r *rawPair, err error) {
	r = &rawPair{ctx: ctx, idle: func() error { return nil }}
	if r.owner, err = l.service.connect(ctx); err != nil {
		return nil, err
	}
	if r.watcher, err = l.service.connect(ctx); err != nil {
		r.owner.close()
		return nil, err
	}
	if err = r.arm(); err == nil {
		_, err = inTurn(l.warmups(), r.sample)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (l *lab) warmups() int {
	if l.cfg.quick {
		return 50
	}
	return 2000
}

func (r *rawPair) close() {
	r.owner.close()
	r.watcher.close()
}

// arm creates the key that is deleted next, and watches it.
func (r *rawPair) arm() (err error) {
	if err := r.owner.create(r.ctx, rawKey); err != nil {
		return fmt.Errorf("create %s: %w", rawKey, err)
	}
	if r.fired, err = r.watcher.watch(r.ctx, rawKey); err != nil {
		return fmt.Errorf("watch %s: %w", rawKey, err)
	}
	return nil
}

// sample measures the delay from just before the deletion to the watch. It does everything else right after
// that, as candidates enter again right after a handover: so both kinds of connections have been idle for
// the same time at their next turn.
func (r *rawPair) sample() (time.Duration, error) {
	d, err := r.notice()
	if err != nil {
		return 0, err
	}
	return d, r.arm()
}

func (r *rawPair) notice() (time.Duration, error) {
	if err := r.idle(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.owner.remove(r.ctx, rawKey); err != nil {
		return 0, fmt.Errorf("delete %s: %w", rawKey, err)
	}
	at, err := await(r.ctx, r.fired)
	return at.Sub(began), err
}

// sampleClaim measures the delay from just before the deletion until the watcher has noticed it and claimed
// a seat by a write.
func (r *rawPair) sampleClaim() (time.Duration, error) {
	notice, err := r.notice()
	if err != nil {
		return 0, err
	}
	claim, err := r.claim(r.watcher)
	if err != nil {
		return 0, err
	}
	return notice + claim, r.arm()
}

// claim measures how long one of the two needs to claim a seat, and gives the seat up again.
func (r *rawPair) claim(who bare) (time.Duration, error) {
	began := time.Now()
	if err := who.claim(r.ctx); err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	d := time.Since(began)
	if err := who.remove(r.ctx, rawSeat); err != nil {
		return 0, fmt.Errorf("delete %s: %w", rawSeat, err)
	}
	return d, nil
}

// inTurn takes one sample of each kind per turn. The order alternates from turn to turn, so that no kind
// always profits from what another leaves behind.
func inTurn(turns int, kinds ...sampler) ([]crowd.Quantiles, error) {
	delays := make([][]time.Duration, len(kinds))
	for turn := range turns {
		for i := range kinds {
			if turn%2 == 1 {
				i = len(kinds) - 1 - i
			}
			d, err := kinds[i]()
			if err != nil {
				return nil, err
			}
			delays[i] = append(delays[i], d)
		}
	}
	all := make([]crowd.Quantiles, len(kinds))
	for i, d := range delays {
		all[i] = crowd.QuantilesOf(d)
	}
	return all, nil
}

// await receives the instant at which a bare client's watch has fired.
func await(ctx context.Context, fired <-chan time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case at, ok := <-fired:
		if !ok {
			return at, errors.New("the raw watch fired for another reason than the deletion")
		}
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("the raw watch has not fired: %w", ctx.Err())
	}
}

// rawLimit measures the limit from idle and without a pause, with no other connections.
func (l *lab) rawLimit(ctx context.Context) (idle, busy crowd.Quantiles, err error) {
	l.say("raw: the limit with no other connections")
	r, err := l.newRawPair(ctx)
	if err != nil {
		return idle, busy, err
	}
	defer r.close()
	after := func(d time.Duration) sampler {
		return func() (time.Duration, error) {
			r.idle = func() error { return program.Sleep(ctx, d) }
			return r.sample()
		}
	}
	all, err := inTurn(l.cfg.samples, after(l.cfg.idle), after(0))
	if err != nil {
		return idle, busy, err
	}
	return all[0], all[1], nil
}

func rawPart(ctx context.Context, l *lab) (section, error) {
	idle, busy, err := l.rawLimit(ctx)
	t := table{
		About: fmt.Sprintf("Here %s: the delay from just before the deletion is sent to the event in the watcher's goroutine. No other connections. %s Warmed up with %d deletions.",
			l.facts.raw, l.facts.sync, l.warmups()),
		Head: []string{"before each sample", "samples", "p50", "p90", "p99"},
	}
	t.add("create and watch only", busy.N, busy.P50, busy.P90, busy.P99)
	t.add(fmt.Sprintf("and %v idle", l.cfg.idle), idle.N, idle.P50, idle.P90, idle.P99)
	return section{l.facts.title + ": raw limit", []table{t}}, err
}
