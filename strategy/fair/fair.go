// Package fair is the strategy of first come, first served: ordered entries, the oldest leads, and each
// candidate waits for its predecessor only.
//
// A leader change wakes one candidate to lead, the next in line, however many there are, and tells the one
// behind it that it is next. It costs the same number of messages with three candidates as with five
// thousand. No directory is listed on the way: see Campaign.
//
// Source: the leader election recipe of Apache ZooKeeper ("Recipes and Solutions"), with one addition, the
// leader's mark.
package fair

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the fair strategy. Its zero value is ready.
type Strategy struct{ entries.Queue }

var _ strategy.Transferrer = Strategy{}

// Name is "fair".
func (Strategy) Name() string { return "fair" }

// Campaign enqueues an entry and waits until it is the oldest.
//
//  1. Enqueue an entry, me.
//  2. Find the predecessor, the youngest entry older than me. None: I lead.
//  3. Wait until the predecessor or my own entry goes. Mine: back to 1.
//  4. If the predecessor bore the leader's mark when it went, I lead; else back to 2.
//  5. If the predecessor, while it exists, names an heir behind me, and both exist: replace me by
//     another entry, in one step, and go back to 2 with that one.
//
// A leader writes the mark into its own entry when its term begins. A leader is the oldest entry, and no
// entry older than an existing one can ever appear. So behind a marked predecessor there is nobody else: when
// it goes, I am the oldest, and need no read between the event and the win. My own entry is known to exist at
// that moment, because Await reports changes in their order.
//
// Step 5 changes nothing of that. A candidate that steps aside waits, and leads by neither entry: the step
// that creates the new entry, which is the youngest, deletes the old one. To others this looks like one
// candidate that goes and another that comes. Nobody steps aside twice for an heir, because it is behind the
// heir afterwards. See Transfer.
//
// There is one exception. Somebody deletes my predecessor's entry and mine in one transaction, and the
// service reports the two one by one, as ZooKeeper does: then I may be elected between the two reports. The
// second ends the term, with ErrDeposed. No guarded write of the term takes effect, as the entry is gone. But
// the term is valid for that moment, and the candidate behind me may have been elected already. A read before
// each win would tell, but would make each handover longer by a round trip.
func (Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (claim strategy.Claim, err error) {
	claim, err = entries.QueueUp(ctx, c, wait)
	claim.MarkLeader = true
	return claim, err
}

// Transfer blocks until the heir is next in line.
//
//  1. Find the heir's predecessor. It is the leader's own entry: the heir is next.
//  2. Name the heir in the leader's entry, once.
//  3. Wait until the predecessor or the heir goes. The heir: it cannot lead. Else back to 1.
//
// The candidate behind the leader watches the leader's entry, and steps aside (Campaign, step 5). The one
// behind it sees its predecessor go without a mark, finds the leader's entry with the name as its new
// predecessor, and steps aside in turn. So the name passes from one to the next, up to the heir, a hop each,
// while the leader still leads. Candidates that come meanwhile are behind the heir.
func (Strategy) Transfer(ctx context.Context, h *strategy.Handover) error {
	for named := false; ; {
		before, err := h.Session.Predecessor(ctx, h.Heir.Entry)
		switch {
		case errors.Is(err, backend.ErrNoEntry):
			return strategy.ErrNoCandidate
		case err != nil:
			return err
		case before.Key == h.Seat.Key || !before.Exists(): // gone: the term ends
			return nil
		}
		if !named {
			if err := h.Name(ctx); err != nil {
				return err
			}
			named = true
		}
		now, err := h.Session.Await(ctx, h.Heir.Entry, before)
		switch {
		case err != nil:
			return fmt.Errorf("candidate %q stands in between, and has not stepped aside: %w", entries.Candidate(before, false).ID, err)
		case !now[0].Exists():
			return strategy.ErrNoCandidate
		}
		h.Heir.Entry = now[0]
	}
}

// wait blocks until the candidate's entry is the oldest, and returns it: me, or the one that replaced it. The
// error is ErrNoEntry if it is gone.
func wait(ctx context.Context, c *strategy.Candidacy, me backend.Entry) (backend.Entry, error) {
	p := &place{c: c, me: me}
	err := p.wait(ctx)
	return p.me, err
}

// A place is a candidate's place in line. It is not on the stack, which stays while the candidate waits.
type place struct {
	c      *strategy.Candidacy
	me     backend.Entry
	before backend.Entry // the predecessor; none: me is the oldest
	past   backend.Entry // an heir that no longer counts
}

func (p *place) wait(ctx context.Context) error {
	for {
		if err := p.determine(ctx); err != nil || !p.before.Exists() {
			return err
		}
		if led, err := p.ready(ctx); err != nil || led {
			return err
		}
		if p.before.Exists() {
			p.past, _ = entries.Heir(p.before)
			if err := p.aside(ctx); err != nil {
				return err
			}
		}
	}
}

func (p *place) determine(ctx context.Context) (err error) {
	completed := p.c.Begin(strategy.StageDetermine)
	p.before, err = p.c.Session.Predecessor(ctx, p.me)
	completed(err)
	return err
}

// ready blocks until the predecessor is gone, and reports whether it led. It also returns, with false, when
// the predecessor exists and names an heir behind me.
func (p *place) ready(ctx context.Context) (led bool, err error) {
	completed := p.c.Begin(strategy.StageReady)
	defer func() { completed(err) }()
	for now := []backend.Entry{p.me, p.before}; ; {
		if led = led || entries.Marked(p.before); led {
			p.c.Sees(entries.Leader(p.before), 2)
		}
		if heir, _ := entries.Heir(p.before); heir.Rev > p.me.Rev && !heir.Same(p.past) {
			return false, nil
		}
		if now, err = p.c.Session.Await(ctx, now...); err != nil {
			return false, err
		}
		p.before = now[1]
		switch {
		case !now[0].Exists():
			return false, backend.ErrNoEntry
		case !p.before.Exists():
			return led, nil
		}
	}
}

// aside replaces me by an entry at the end of the line: the predecessor leads, and has named an heir. It
// keeps me if the predecessor or the heir has gone, since the line continues as it is then, and if there is
// no room at the end of the line.
func (p *place) aside(ctx context.Context) error {
	heir, id := entries.Heir(p.before)
	last, err := entries.Requeue(ctx, p.c, p.me, backend.IfExists(p.before), backend.IfExists(heir))
	switch {
	case errors.Is(err, backend.ErrCondition), errors.Is(err, backend.ErrUsedUp), errors.Is(err, backend.ErrNoParent):
		return nil
	case err != nil:
		return err
	}
	p.me = last
	p.c.Aside(fmt.Errorf("%w: %q", strategy.ErrTransfer, id))
	return nil
}
