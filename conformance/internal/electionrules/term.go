package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector"
)

var termRules = []rule{
	{
		Name: "term/exclusion",
		Text: "No two terms are valid at the same instant, whatever is cut, delayed or lost, and the election goes on afterwards.",
		Need: []string{"Suspend"},
		Run:  termExclusion,
	}, {
		Name: "term/order",
		Text: "Candidates lead in the order of their arrival; one that withdraws from the middle is passed over.",
		Need: []string{needOrdered},
		Run:  termOrder,
	}, {
		Name: "term/token",
		Text: "Tokens strictly rise from term to term, also over an expiry, an operator's deletion and the election's being founded anew.",
		Need: []string{"Delete", "Expire"},
		Run:  termToken,
	},
}

// reportRules are what an elector tells of its terms, and what it refuses.
var reportRules = []rule{
	{
		Name: "term/once",
		Text: "Each term is reported by one Elected and one Ended with its cause, in this order, and the Ended before the next Elected.",
		Need: []string{needHooks, "Delete", "Expire"},
		Run:  termOnce,
	}, {
		Name: "term/ended-first",
		Text: "While the Ended of a term is being reported, its candidate is not elected again.",
		Need: []string{needHooks},
		Run:  termEndedFirst,
	}, {
		Name: "term/elected-first",
		Text: "A term that ends while its Elected is being reported gets its Ended after that.",
		Need: []string{needHooks, "Delete"},
		Run:  termElectedFirst,
	}, {
		Name: "term/busy",
		Text: "An elector that campaigns or leads refuses a second Campaign with ErrBusy, and is undisturbed by it.",
		Run:  termBusy,
	}, {
		Name: "term/outlives-campaign",
		Text: "The ctx of Campaign bounds the campaign only: when it ends, a term that was won goes on.",
		Run:  termOutlivesCampaign,
	}, {
		Name: "term/proclaim",
		Text: "A proclaimed value is what others see; a Proclaim after the term has ended fails with the cause and writes nothing.",
		Need: []string{"Delete"},
		Run:  termProclaim,
	}, {
		Name: "term/same-id",
		Text: "Candidates of different processes that have the same ID are both served.",
		Run:  termSameID,
	},
}

func termOrder(a *arena) {
	for _, gone := range [][]int{nil, {1}, {3}, {5}, {1, 2}, {2, 4}} {
		a.in(fmt.Sprintf("of 1 leader and 5 waiting candidates, %d withdraw", len(gone)), func(a *arena) {
			first, t := a.lead()
			bids := []*bid{nil}
			for i := range 5 {
				var c *candidate
				if i == 2 { // two candidates in one process
					c = a.standIn(first.client)
				} else {
					c = a.stand()
				}
				b := c.enters()
				bids = append(bids, b)
			}
			for _, i := range gone {
				bids[i].withdraws()
			}
			a.Settle() // who takes that for its turn has led by then
			want := []string{first.id}
			for i, b := range bids[1:] {
				if slices.Contains(gone, i+1) {
					continue
				}
				b.blocked()
				want = append(want, b.c.id)
				t = b.succeeds(t)
			}
			if got := a.hist.order(); !slices.Equal(got, want) {
				a.Failf("%v led, want %v", got, want)
			}
		})
	}
}

func termToken(a *arena) {
	var last uint64
	rises := func(after string, t *elector.Term) *elector.Term {
		if t.Token() <= last {
			a.Failf("token %d after %s, and %d before", t.Token(), after, last)
		}
		last = t.Token()
		return t
	}
	c := a.stand()
	t := rises("the founding", c.campaign().wins())
	a.resign(t)
	rises("a resignation", c.campaign().wins())
	a.close(c)
	c = a.stand()
	t = rises("Close", c.campaign().wins())
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	t = rises("an expiry", c.campaign().wins())
	a.delete(a.seat().Key)
	a.ends(t, elector.ErrDeposed)
	t = rises("a deletion of the leader's entry", c.campaign().wins())
	if !a.cfg.Dense { // where the tokens are counted goes with the election
		a.delete(a.path)
		a.ends(t, elector.ErrDeposed)
		t = rises("a deletion of the election", c.campaign().wins())
		a.resign(t)
		a.delete(a.path)
		rises("a deletion of an election without candidates", c.campaign().wins())
	}
	_, b := a.queue()
	a.close(c)
	rises("a handover", b.wins())
}

func termOnce(a *arena) {
	for _, way := range []ending{resigned, overthrow, expired, closed} {
		a.in("the leader "+way.name, func(a *arena) {
			c, t := a.lead()
			way.end(a, c, t)
			a.ends(t, way.cause)
			a.Until("Ended is reported", func() bool {
				return len(c.reports(func(r report) bool { return r.what == isEnded })) > 0
			})
			a.Settle()
			got := c.reports(func(r report) bool { return r.what == isElected || r.what == isEnded })
			if len(got) != 2 || got[0].what != isElected || got[1].what != isEnded {
				a.Failf("%d reports of Elected and Ended, want one each: %+v", len(got), got)
			}
			if got[0].token != t.Token() || got[1].token != t.Token() || !errors.Is(got[1].err, way.cause) {
				a.Failf("reports %+v of term %d, want cause %q", got, t.Token(), way.cause)
			}
		})
	}
	a.in("a campaign is cancelled", func(a *arena) {
		a.lead()
		c, b := a.queue()
		b.withdraws()
		a.Settle()
		if got := c.reports(func(r report) bool { return r.what == isElected || r.what == isEnded }); len(got) > 0 {
			a.Failf("reports %+v without a term", got)
		}
	})
}

func termElectedFirst(a *arena) {
	c := a.stand()
	hook := c.holdIn(isElected)
	b := c.campaign()
	hook.reached("Elected is called")
	a.delete(a.seat().Key)
	_, next := a.lead()
	a.Settle()
	if n := len(c.reports(func(r report) bool { return r.what == isEnded })); n > 0 {
		a.Failf("Ended was called before Elected had returned")
	}
	hook.release()
	a.ends(b.wins(), elector.ErrDeposed)
	a.holds(next)
}

func termEndedFirst(a *arena) {
	c := a.stand()
	hook := c.holdIn(isEnded)
	a.resign(c.campaign().wins())
	hook.reached("Ended is called")
	b := c.campaign()
	a.Settle()
	if n := len(c.reports(func(r report) bool { return r.what == isElected })); n != 1 {
		a.Failf("Elected was called %d times while the first Ended had not returned", n)
	}
	b.blocked()
	hook.release()
	b.wins()
}

func termBusy(a *arena) {
	leader, t := a.lead()
	waiting, b := a.queue()
	for _, c := range []*candidate{leader, waiting} {
		second := c.campaign()
		second.fails(elector.ErrBusy)
	}
	a.holds(t)
	b.blocked()
	b.succeeds(t)
}

func termOutlivesCampaign(a *arena) {
	type key struct{}
	c := a.stand()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "kept"))
	b := c.campaignIn(ctx, cancel)
	t := b.wins()
	cancel()
	a.stays(t)
	if t.Context().Value(key{}) != "kept" {
		a.Failf("the term's Context has lost the values of Campaign's ctx")
	}
	a.resign(t)
}

func termProclaim(a *arena) {
	ctx := a.within()
	c, t := a.lead()
	_, b := a.queue()
	viewer := a.view()
	for _, value := range []string{"one", "", "two"} {
		a.proclaim(t, value)
		a.Until(fmt.Sprintf("the leader's value is %q", value), func() bool {
			l, err := a.leader(viewer)
			return err == nil && l.ID == c.id && l.Token == t.Token() && string(l.Value) == value
		})
	}
	if err := t.Proclaim(ctx, make([]byte, elector.MaxValue+1)); err == nil {
		a.Failf("Proclaim of more than MaxValue bytes returned no error")
	}
	a.holds(t)
	a.delete(a.seat().Key)
	next := b.wins()
	a.Refused("Proclaim of a deposed leader", t.Proclaim(ctx, []byte("late")), elector.ErrDeposed)
	a.ends(t, elector.ErrDeposed)
	a.Must("Proclaim of its successor", next.Proclaim(ctx, []byte("mine")))
	a.Refused("Proclaim of a deposed leader", t.Proclaim(ctx, []byte("late")), elector.ErrDeposed)
	a.Until("the successor's value stands", func() bool {
		l, err := a.leader(viewer)
		return err == nil && string(l.Value) == "mine"
	})
	a.holds(next)
	a.resign(next)
	a.Refused("Proclaim after Resign", next.Proclaim(ctx, []byte("late")), elector.ErrResigned)
	a.vacant(viewer)
}

func termSameID(a *arena) {
	id := a.id(1)
	same := func(cfg *elector.Config) { cfg.ID = id }
	_, t := a.lead(same)
	_, b := a.queue(same)
	viewer := a.view()
	if a.cfg.Ordered {
		a.lists(viewer, id, id)
	}
	next := b.succeeds(t)
	a.holds(next)
	a.Until(fmt.Sprintf("Leader says that term %d leads", next.Token()), func() bool {
		l, err := a.leader(viewer)
		return err == nil && l.Token == next.Token()
	})
}
