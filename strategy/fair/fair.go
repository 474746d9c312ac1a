// Package fair is the strategy in which the first to come leads first: ordered
// entries, the oldest leads, and each candidate waits for its predecessor only.
//
// A leader change wakes one candidate to lead, the next in line, however many
// there are, and tells the one behind it that it is next. It costs the same number
// of messages with three candidates as with five thousand. No directory is listed
// on the way: see Campaign.
//
// Source: the leader election recipe of Apache ZooKeeper ("Recipes and
// Solutions"), with one addition, the mark of the leader.
package fair

import (
	"context"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the fair strategy. Its zero value is ready.
type Strategy struct{ entries.Queue }

// New returns the fair strategy.
func New() Strategy { return Strategy{} }

var _ elector.Strategy = Strategy{}

// Name is "fair".
func (Strategy) Name() string { return "fair" }

// Campaign enqueues an entry and waits until it is the oldest.
//
//  1. Enqueue an entry, me.
//  2. Find the predecessor, the youngest entry older than me. None: I lead.
//  3. Wait until the predecessor or my own entry goes. Mine: back to 1.
//  4. If the predecessor bore the leader's mark when it went, I lead; else back to 2.
//
// The mark is what a leader writes into its own entry when its term begins. A
// leader is the oldest entry, and no entry older than an existing one can ever
// appear, so behind a marked predecessor nobody else is left: its going makes me
// the oldest, and no read stands between the event and the win. My own entry is
// known to exist at that moment, because Await reports changes in their order.
//
// There is one exception. Somebody deletes my predecessor's entry and mine in one
// transaction, and the service reports the two one by one, as ZooKeeper does: then I may
// be elected between the two reports. The second ends the term, with ErrDeposed. No guarded
// write of it is done, as the entry is gone. But the term is valid for that moment, and the
// candidate behind me may have been elected already. A read before each win would tell; it
// would make each handover longer by a round trip.
func (Strategy) Campaign(ctx context.Context, c *elector.Candidacy) (elector.Claim, error) {
	claim, err := entries.QueueUp(ctx, c, wait)
	claim.MarkLeader = true
	return claim, err
}

// wait blocks until me is the oldest entry. ErrNoEntry says that me is gone.
func wait(ctx context.Context, c *elector.Candidacy, me backend.Entry) error {
	for {
		before, err := determine(ctx, c, me)
		if err != nil || !before.Exists() {
			return err
		}
		led, err := ready(ctx, c, me, before)
		if err != nil || led {
			return err
		}
	}
}

func determine(ctx context.Context, c *elector.Candidacy, me backend.Entry) (backend.Entry, error) {
	completed := c.Begin(elector.StageDetermine)
	before, err := c.Session.Predecessor(ctx, me)
	completed(err)
	return before, err
}

// ready blocks until before is gone, and tells whether it led.
func ready(ctx context.Context, c *elector.Candidacy, me, before backend.Entry) (led bool, err error) {
	completed := c.Begin(elector.StageReady)
	defer func() { completed(err) }()
	for {
		led = led || entries.Marked(before)
		now, err := c.Session.Await(ctx, me, before)
		if err != nil {
			return false, err
		}
		if me, before = now[0], now[1]; !me.Exists() {
			return false, backend.ErrNoEntry
		}
		if !before.Exists() {
			return led, nil
		}
	}
}
