package electionrules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// stranger has the operator make an ephemeral entry directly under the election's path,
// where no candidate of this library's has one.
func (a *arena) stranger() backend.Entry {
	return a.made("make a stranger", backend.Enqueue(a.path, []byte("stranger")))[0]
}

func (a *arena) goes(stranger backend.Entry) {
	a.operate("drop a stranger", func(ctx context.Context, s *backend.Session) error { return s.Discard(ctx, stranger) })
}

// seesIt waits until the candidate, which may be a little behind, sees an entry.
func (a *arena) seesIt(c *candidate, e backend.Entry) {
	a.Until(c.id+" sees "+e.Key, func() bool {
		ctx := a.within()
		if _, err := c.e.Leader(ctx); err != nil && !errors.Is(err, elector.ErrNoLeader) {
			a.Failf("Leader: %v", err)
		}
		session := c.tap.session()
		if session == nil {
			return true // it goes past the tap
		}
		_, err := session.Get(ctx, e.Key)
		return err == nil
	})
}

// catchesUp has the candidate, which may be a little behind, see what there is now.
func (a *arena) catchesUp(c *candidate) {
	a.Until(c.id+" has caught up", func() bool {
		ctx := a.within()
		_, _ = c.e.Leader(ctx) // so that it has a session
		session := c.tap.session()
		if session == nil {
			return true // it goes past the tap
		}
		_, err := session.Commit(ctx, []backend.Condition{backend.IfExists(backend.Unknown(a.path))})
		return errors.Is(err, backend.ErrCondition)
	})
}

// occupied checks that the candidate is refused, and leaves nothing behind.
func (a *arena) occupied(c *candidate, by backend.Entry) {
	a.seesIt(c, by)
	before := len(a.entries())
	b := c.campaign()
	b.fails(elector.ErrOccupied)
	a.FailIf(!strings.Contains(b.err.Error(), by.Key), "the error does not name %s: %v", by.Key, b.err)
	n := len(a.entries())
	a.FailIf(n != before, "there were %d entries in the election, and are %d", before, n)
}

func dataOccupied(a *arena) {
	a.put(a.path, "") // it may be there as the parent of others
	a.put(a.path+"/notes", "somebody's")
	e := a.stranger()
	c := a.stand()
	a.occupied(c, e)
	record := a.get(a.path)
	a.FailIf(len(record.Value) > 0, "the election is founded beside a stranger: %q", record.Value)
	a.goes(e)
	a.seesGone(c, e.Key)
	t := c.campaign().wins()

	e = a.stranger()
	other := a.stand()
	a.occupied(other, e)
	a.leads(other.e, c)
	a.holds(t)
	a.resign(t)
	a.occupied(c, e)
	a.goes(e)
	a.seesGone(c, e.Key)
	a.holds(c.campaign().wins())

	a.in("elections stand in each other's path", func(a *arena) {
		_, t := a.lead()
		_, nested := a.lead(func(cfg *elector.Config) { cfg.Election += "/inner" })
		_, b := a.queue()
		a.holds(b.succeeds(t))
		a.resign(nested)
	})
}

func dataOccupiedLate(a *arena) {
	every := max(a.Service.TTL/4, time.Second)
	looks := 2 * every
	watchful := func(cfg *elector.Config) { cfg.SurveyEvery = every }
	c, t := a.lead(watchful)
	d, b := a.queue(watchful)
	time.Sleep(looks) // they find nothing, and nothing changes
	a.holds(t)
	b.waits()

	e := a.stranger()
	reports := func(c *candidate) int {
		return len(slices.DeleteFunc(c.reports(isOccupied), func(r report) bool {
			return !errors.Is(r.err, elector.ErrOccupied) || !strings.Contains(r.err.Error(), e.Key)
		}))
	}
	for _, c := range []*candidate{c, d} {
		a.Until(c.id+" reports the stranger", func() bool { return reports(c) > 0 })
	}
	a.Until("only the leader's entry is left", func() bool { return len(a.visible()) == 1 })
	a.holds(t)
	b.blocked()
	a.resign(t)
	time.Sleep(looks)
	b.blocked()
	a.goes(e)
	t = b.wins()
	n := reports(d)
	time.Sleep(looks)
	a.holds(t)
	again := reports(d)
	a.FailIf(again > n, "%s reports a stranger that is gone, %d times", d.id, again-n)
}
