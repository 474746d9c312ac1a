package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// resign makes the leader resign. It comes back at the end of the line.
func (r *run) resign() error {
	old := r.Leader
	ctx, cancel := context.WithTimeout(r.Context(), r.patience)
	defer cancel()
	r.began = time.Now()
	if err := old.Term.Resign(ctx); err != nil {
		return err
	}
	if err := r.next(r.patience); err != nil {
		return err
	}
	r.resigned = append(r.resigned, r.Leader.At.Sub(r.began))
	return r.enter(r.by[old.Candidate])
}

// crash cuts the leader off, without a goodbye. When another leads, it comes back as a new process.
func (r *run) crash() error {
	c := r.by[r.Leader.Candidate]
	entry, err := r.seat()
	if err != nil {
		return err
	}
	within := 3*r.ttl + r.patience
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	gone := make(chan time.Time, 1)
	observed := make(chan error, 1)
	go func() { observed <- awaitEnd(ctx, r.observer, entry, gone) }()

	c.gone.Store(true)
	began := time.Now()
	c.client.Cut()
	if err := errors.Join(r.next(within), <-observed); err != nil {
		return err
	}
	dropped := <-gone
	r.unnoticed = append(r.unnoticed, dropped.Sub(began))
	// Both hear of it on their own connections, so the observer may be later.
	r.crashed = append(r.crashed, max(r.Leader.At.Sub(dropped), 0))
	r.forget(c)
	r.cleanups.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), r.patience)
		defer cancel()
		_ = c.end(ctx) // its session is over, so there is nothing to confirm
	})
	back, err := r.join(c.number)
	if err != nil {
		return err
	}
	return r.enter(back)
}

// seat returns the leader's current entry.
func (r *run) seat() (backend.Entry, error) {
	for _, g := range r.Leader.Term.Guard().Conditions {
		if g.Entry.Session == "" {
			continue
		}
		now, err := r.observer.Get(r.Context(), g.Entry.Key)
		if err == nil && now.Rev != g.Entry.Rev {
			err = fmt.Errorf("another entry is under %s", g.Entry.Key)
		}
		return now, err
	}
	return backend.Entry{}, errors.New("the leader has no entry")
}

// awaitEnd blocks until the entry is gone, and sends the time of that.
func awaitEnd(ctx context.Context, s *backend.Session, entry backend.Entry, gone chan<- time.Time) error {
	for {
		now, err := s.Await(ctx, entry)
		if err != nil {
			return fmt.Errorf("the crashed leader's entry has not gone: %w", err)
		}
		if now[0].Rev != entry.Rev {
			gone <- time.Now()
			return nil
		}
		entry = now[0]
	}
}

// churn makes as many candidates leave and join as the drawn number says.
func (r *run) churn() error {
	k := int(r.cfg.Churn)
	if r.random.Float64() < r.cfg.Churn-float64(k) {
		k++
	}
	for range k {
		if err := r.leave(); err != nil {
			return err
		}
		c, err := r.join(r.number())
		if err != nil {
			return err
		}
		r.fewer[c.number] = true
		if err := r.measured(&r.perJoin, func() error { return r.enter(c) }); err != nil {
			return err
		}
		r.joined++
	}
	return nil
}

// leave makes a waiting candidate withdraw for good.
func (r *run) leave() error {
	i := r.random.IntN(len(r.present) - 1)
	if r.present[i].Candidate == r.Leader.Candidate {
		i = len(r.present) - 1
	}
	c := r.present[i]
	r.fairness.LongestWait = max(r.fairness.LongestWait, len(r.elected)-c.turn)
	r.fewer[c.number] = true
	r.forget(c)
	ctx, cancel := context.WithTimeout(r.Context(), r.patience)
	defer cancel()
	if err := c.end(ctx); err != nil {
		return fmt.Errorf("candidate %d leaves: %w", c.number, err)
	}
	return r.still()
}
