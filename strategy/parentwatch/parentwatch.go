// Package parentwatch is the simple recipe of many tutorials: ordered entries, the oldest leads, and every
// candidate watches the directory and lists it again at each change.
//
// It elects in the order of arrival, as strategy/fair does, and as safely. Its price is the highest of all:
// every candidate that comes or goes wakes all others, and each reads the names of all. With N candidates
// that is N messages and N times N names per change, during which the next leader has to wait for its turn.
// It exists for comparison, and suits a handful of candidates at most. Use strategy/fair.
//
// Source: the "herd effect" that Apache ZooKeeper's recipes warn of ("Recipes and Solutions", Leader
// Election).
package parentwatch

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the parentwatch strategy. Its zero value is ready.
type Strategy struct{ entries.Queue }

var _ strategy.Strategy = Strategy{}

// Name is "parentwatch".
func (Strategy) Name() string { return "parentwatch" }

// Campaign enqueues an entry and waits until it is the oldest.
//
//  1. Enqueue an entry, me.
//  2. List the directory. Not in it: back to 1. No candidate is before me: I lead.
//  3. Wait until the listing changes; back to 2.
//
// Not every service can tell from a name who made an entry. So Campaign reads the entry before me, once for
// as long as it exists. It skips an entry that no session holds, as that would never go.
func (Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	return entries.QueueUp(ctx, c, wait)
}

// wait blocks until me is the oldest entry. The error is ErrNoEntry if me is gone.
func wait(ctx context.Context, c *strategy.Candidacy, me backend.Entry) (backend.Entry, error) {
	listing, err := determine(ctx, c)
	for other := ""; err == nil; listing, err = ready(ctx, c, listing) {
		i := slices.Index(listing.Keys, me.Key)
		if i < 0 {
			return me, backend.ErrNoEntry
		}
		if before := listing.Keys[:i]; !slices.Contains(before, other) {
			if other, err = candidate(ctx, c, before); err != nil || other == "" {
				return me, err
			}
		}
	}
	return me, err
}

// candidate returns the last of the keys that is a candidate's, or "" if there is none.
func candidate(ctx context.Context, c *strategy.Candidacy, keys []string) (string, error) {
	for _, key := range slices.Backward(keys) {
		e, err := c.Session.Get(ctx, key)
		switch {
		case errors.Is(err, backend.ErrNoEntry):
			return key, nil // gone since: the listing is old, and what it says of me may be, too
		case err != nil:
			return "", err
		case e.Session != "":
			return key, nil
		}
	}
	return "", nil
}

func determine(ctx context.Context, c *strategy.Candidacy) (backend.Listing, error) {
	completed := c.Begin(strategy.StageDetermine)
	listing, err := c.Session.List(ctx, c.Dir)
	completed(err)
	return listing, err
}

// ready blocks until the directory differs from the listing, and lists it again.
func ready(ctx context.Context, c *strategy.Candidacy, listing backend.Listing) (backend.Listing, error) {
	completed := c.Begin(strategy.StageReady)
	listing, err := c.Session.AwaitList(ctx, listing)
	completed(err)
	return listing, err
}
