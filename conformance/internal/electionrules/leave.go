package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector"
)

var leaveRules = []rule{
	promise("leave/resign", leaveResign, needs{"Delete", "Expire"},
		"Resign ends the term at once and hands the seat to the next candidate. A second Resign, and one after the term was lost, does no harm."),
	promise("leave/resign-out-of-touch", leaveOutOfTouch, needs{"Suspend"},
		"A Resign whose ctx ends first ends the term at once, reports that it is not confirmed, and releases the seat when the link is back."),
	promise("leave/withdraw", leaveWithdraw, nil,
		"A candidate that withdraws, from any place in the line, is gone when Campaign returns, and disturbs nobody else."),
	promise("leave/zombie", leaveZombie, needs{"Suspend", "Delete", "Expire"},
		"A leader that resigns, proclaims or closes after its successor has taken over does not touch the successor's entry, whether or not it knows of the successor."),
	promise("leave/nothing", leaveNothing, needs{"Stored", needCommit},
		"After many terms and campaigns an election stores no more in the service than after its first ones."),
}

func leaveResign(a *arena) {
	ctx := a.within()
	a.in("nobody waits", func(a *arena) {
		_, t := a.lead()
		a.resign(t)
		a.left(0, "after Resign has returned")
		a.works()
	})
	a.in("others wait", func(a *arena) {
		_, t := a.lead()
		_, b := a.queue()
		a.queue()
		a.resign(t)
		if a.cfg.Ordered {
			b.wins()
		}
	})
	a.in("at the instant of the win", func(a *arena) {
		for range 5 {
			c, t := a.lead()
			a.Must("Resign", t.Resign(ctx))
			a.ends(t, elector.ErrResigned)
			t = c.campaign().wins()
			a.Must("Resign", t.Resign(ctx))
			a.close(c)
		}
	})
	a.in("twice, and by several goroutines", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		a.atOnce("Resign", t.Resign)
		next := b.wins()
		a.Must("Resign again", t.Resign(ctx))
		a.stays(next)
		again := c.enters()
		a.Must("Resign of the old term", t.Resign(ctx))
		a.Settle()
		again.blocked()
		a.holds(next)
	})
	each(a.in, "after it %s", []ending{expired, overthrow}, func(a *arena, way ending) {
		c, t := a.lead()
		_, b := a.queue()
		way.end(a, c, t)
		a.ends(t, way.cause)
		next := b.wins()
		a.Must("Resign", t.Resign(ctx))
		a.ends(t, way.cause)
		a.stays(next)
	})
}

func leaveOutOfTouch(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	a.suspend(c)
	a.FailIf(t.Resign(ended()) == nil, "Resign returned nil without a link and with an ended ctx")
	a.ends(t, elector.ErrResigned)
	a.Settle()
	b.blocked()
	a.resume(c)
	next := b.wins()
	a.Must("Resign again", t.Resign(context.Background()))
	a.holds(next)
}

func leaveWithdraw(a *arena) {
	const waiting = 4
	for place := range waiting {
		for _, by := range []string{"cancel", "close"} {
			a.in(fmt.Sprintf("number %d of %d waiting candidates leaves by %s", place+1, waiting, by), func(a *arena) {
				first, t := a.lead()
				var bids []*bid
				for range waiting {
					_, b := a.queueIn(first.client)
					bids = append(bids, b)
				}
				leaver := bids[place]
				before := len(a.entries())
				if by == "cancel" {
					leaver.withdraws()
				} else {
					a.close(leaver.c)
					leaver.fails(elector.ErrClosed)
				}
				a.left(before-a.inLineOf(1), "after it has left")
				a.stays(t)
				rest := slices.Delete(slices.Clone(bids), place, place+1)
				for len(rest) > 0 {
					t = a.passOn(t, &rest)
				}
				a.resign(t)
				got := a.hist.count()
				a.FailIf(got != waiting, "%d terms, want %d: %v", got, waiting, a.hist.order())
			})
		}
	}
}

// anyReturns waits until one of the bids has won, in any order, and removes it from the list.
func anyReturns(a *arena, bids *[]*bid) *elector.Term {
	at := -1
	a.Until("one of the waiting candidates is elected", func() bool {
		at = slices.IndexFunc(*bids, (*bid).returned)
		return at >= 0
	})
	winner := (*bids)[at]
	*bids = slices.Delete(*bids, at, at+1)
	return winner.wins()
}

// anyWins is anyReturns; if the election is ordered, the first in line must win.
func anyWins(a *arena, bids *[]*bid) *elector.Term {
	first := (*bids)[0]
	t := anyReturns(a, bids)
	a.FailIf(a.cfg.Ordered && first.term != t, "%s was elected before %s", winnerOf(a, t).id, first.c.id)
	return t
}

// passOn makes the leader resign, and then does anyWins.
func (a *arena) passOn(t *elector.Term, bids *[]*bid) *elector.Term {
	a.resign(t)
	return anyWins(a, bids)
}

func leaveNothing(a *arena) {
	const turns = 6
	c, t := a.lead()
	turn := func() {
		next, b := a.queueIn(c.client)
		leaver := a.standIn(c.client).enters()
		leaver.withdraws()
		a.close(leaver.c)
		a.commit(t, elector.Put(a.own("progress"), newValue))
		a.resign(t)
		a.close(c)
		c, t = next, b.wins()
		a.speak(t)
	}
	turn()
	turn() // from now on the service holds what stays
	before := a.Stored()
	for range turns {
		turn()
	}
	a.NoMore(before, turns, "more terms")
}

func leaveZombie(a *arena) {
	resigns := deed{"resigns", func(ctx context.Context, _ *candidate, t *elector.Term) error { return t.Resign(ctx) }}
	closes := deed{"closes", func(ctx context.Context, c *candidate, _ *elector.Term) error {
		_ = c.real.Close(ctx) // the end of a lost session may be impossible to confirm
		c.cut = true
		return nil
	}}
	proclaims := deed{"proclaims", func(ctx context.Context, _ *candidate, t *elector.Term) error {
		if err := t.Proclaim(ctx, []byte("undead")); err == nil {
			return errors.New("it was not refused")
		}
		return nil
	}}
	each(a.beside, "it %s while the link is cut", []deed{resigns, proclaims}, func(a *arena, d deed) { zombieCutOff(a, d, true) })
	each(a.beside, "it %s when the link is back", []deed{resigns, proclaims, closes}, func(a *arena, d deed) { zombieCutOff(a, d, false) })
	if lacks(*a.cfg, rule{Need: []string{needCommit, needBackend}}) != "" {
		return
	}
	for _, way := range []ending{overthrow, expired} {
		for _, d := range []deed{resigns, closes} {
			a.in(fmt.Sprintf("it %s, hears nothing of it, and %s", way.name, d.name), func(a *arena) {
				z := a.zombie(way)
				a.Must("the zombie "+d.name, d.do(a.within(), z.c, z.term))
				if d.name == resigns.name {
					a.ends(z.term, elector.ErrResigned)
				}
				z.harmless(a)
			})
		}
	}
}

// A deed is something that a zombie does.
type deed struct {
	name string
	do   func(ctx context.Context, c *candidate, t *elector.Term) error
}

func (d deed) String() string { return d.name }

// zombieCutOff cuts a leader's link until another leads. The old one does d during the cut, or after it.
func zombieCutOff(a *arena, d deed, during bool) {
	c, t := a.lead(a.brief)
	next, b := a.queue()
	if c.client.HoldWakeups != nil {
		a.freeze(c)
	}
	a.suspend(c)
	does := func() *call {
		return a.begin("the zombie "+d.name, func(ctx context.Context) error { return d.do(ctx, c, t) })
	}
	var done *call
	if during {
		done = does()
	}
	successor := b.wins()
	a.Until("the zombie's term is over", func() bool { return t.Context().Err() != nil && !t.Valid() })
	before := a.entries()
	a.resume(c)
	if !during {
		done = does()
	}
	done.must()
	a.stays(successor)
	after := a.entries()
	a.FailIf(len(after) == 0 || after[0].Key != before[0].Key || after[0].Rev != before[0].Rev,
		"the successor's entry was %+v and is %+v", before, after)
	a.leads(next.e, next)
}
