// Package deputy is a strategy in which the next leader is known before there is a vacancy: one
// candidate is the leader's deputy, and the others wait to be the deputy. It is the worked example of
// docs/internals/write-a-strategy.md.
package deputy

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the deputy strategy. Its zero value is ready to use.
type Strategy struct{ entries.Seat }

var _ strategy.Strategy = Strategy{}

// Name returns "deputy".
func (Strategy) Name() string { return "deputy" }

// Campaign makes the candidate the deputy, and then the leader.
//
//  1. Create the deputy's entry, me. Taken: wait until it is gone; back to 1.
//  2. In one step, create the seat and delete me. Done: I lead.
//  3. The seat is taken: wait until it is gone; back to 2. Me is gone: back to 1.
func (Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	var me backend.Entry
	for {
		seat, err := offer(ctx, c, &me)
		switch {
		case err == nil:
			return entries.Claim(c, seat), nil
		case errors.Is(err, backend.ErrExists) && me.Exists():
			err = ready(ctx, c, entries.SeatKey(c.Dir))
		case errors.Is(err, backend.ErrExists):
			err = ready(ctx, c, deputyKey(c.Dir))
		case errors.Is(err, backend.ErrNoEntry):
			me, err = backend.Entry{}, nil // somebody deleted me
		}
		if err != nil && me.Exists() {
			err = errors.Join(err, c.Withdraw(ctx, me))
		}
		if err != nil {
			return strategy.Claim{}, err
		}
	}
}

func deputyKey(dir string) string { return dir + "/deputy" }

// offer makes the candidate the deputy, unless it is already, and then the leader.
func offer(ctx context.Context, c *strategy.Candidacy, me *backend.Entry) (seat backend.Entry, err error) {
	completed := c.Begin(strategy.StageOffer)
	defer func() { completed(err) }()
	if !me.Exists() {
		made, err := c.Session.Commit(ctx, nil, backend.CreateEphemeral(deputyKey(c.Dir), entries.Payload(c, false)))
		if err != nil {
			return backend.Entry{}, err
		}
		*me = made[0]
	}
	made, err := c.Session.Commit(ctx, nil,
		backend.CreateEphemeral(entries.SeatKey(c.Dir), entries.Payload(c, true)),
		backend.Delete(*me)) // it also makes the commit fail if me is gone
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// ready blocks until the entry under key is gone.
func ready(ctx context.Context, c *strategy.Candidacy, key string) (err error) {
	completed := c.Begin(strategy.StageReady)
	defer func() { completed(err) }()
	for taken := backend.Unknown(key); taken.Exists(); {
		now, err := c.Session.Await(ctx, taken)
		if err != nil {
			return err
		}
		if taken = now[0]; taken.Exists() && taken.Session == "" {
			return entries.PersistentError(taken)
		}
	}
	return nil
}
