// Package unfair is the strategy in which all candidates race for one entry, the seat. The candidate that
// creates it leads; all others wait for it to go and then race again.
//
// It is the simplest recipe, with one entry per election for any number of candidates. Its price is the herd:
// a leader change wakes every candidate, and all but one write in vain. There is no order of succession.
// Jitter spreads the herd, at the price of time without a leader.
//
// Source: the "simple lock" that Apache ZooKeeper's recipes warn of under "herd effect"; Chubby and Consul
// elect this way.
package unfair

import (
	"context"
	"errors"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the unfair strategy. Its zero value is ready and has no jitter.
type Strategy struct {
	entries.Seat
	// Jitter is the longest time a candidate waits, at random, before it races for the seat. A newcomer
	// waits, too: otherwise a candidate whose work fails at once would win again and again, before the others
	// see that the seat is vacant. Zero means none. It bounds nothing but the herd.
	Jitter time.Duration
}

var _ strategy.Strategy = Strategy{}

// Name is "unfair".
func (Strategy) Name() string { return "unfair" }

// Campaign races for the seat until it is won.
//
//  1. With jitter, wait a random time.
//  2. CreateEphemeral the seat. Done: I lead.
//  3. Somebody has it: wait until it is gone. Back to 1.
func (u Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	for {
		if err := c.Pause(ctx, u.Jitter); err != nil {
			return strategy.Claim{}, err
		}
		seat, err := offer(ctx, c)
		if err == nil {
			return entries.Claim(c, seat), nil
		}
		if !errors.Is(err, backend.ErrExists) {
			return strategy.Claim{}, err
		}
		if err := ready(ctx, c); err != nil {
			return strategy.Claim{}, err
		}
	}
}

func offer(ctx context.Context, c *strategy.Candidacy) (backend.Entry, error) {
	completed := c.Begin(strategy.StageOffer)
	made, err := c.Session.Commit(ctx, nil, backend.CreateEphemeral(entries.SeatKey(c.Dir), entries.Payload(c, true)))
	completed(err)
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// ready blocks until the seat is gone.
func ready(ctx context.Context, c *strategy.Candidacy) (err error) {
	completed := c.Begin(strategy.StageReady)
	defer func() { completed(err) }()
	for taken := backend.Unknown(entries.SeatKey(c.Dir)); taken.Exists(); {
		now, err := c.Session.Await(ctx, taken)
		if err != nil {
			return err
		}
		if taken = now[0]; taken.Exists() && taken.Session == "" {
			return entries.PersistentError(taken)
		}
		c.Sees(entries.Leader(taken), 0)
	}
	return nil
}
