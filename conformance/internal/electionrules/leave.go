package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var leaveRules = []rule{
	{
		Name: "leave/resign",
		Text: "Resign ends the term at once and hands the seat to the next; a second one, and one after the term was lost, is harmless.",
		Need: []string{"Delete", "Expire"},
		Run:  leaveResign,
	}, {
		Name: "leave/resign-out-of-touch",
		Text: "A Resign whose ctx ends first ends the term at once, says that it is not confirmed, and releases the seat when the link is back.",
		Need: []string{"Suspend"},
		Run:  leaveOutOfTouch,
	}, {
		Name: "leave/withdraw",
		Text: "A candidate that withdraws, wherever it waits, is gone when Campaign returns and disturbs nobody else.",
		Run:  leaveWithdraw,
	}, {
		Name: "leave/zombie",
		Text: "A leader that resigns, proclaims or closes when its successor has taken over, whether or not it has heard of that, does not touch the successor's entry.",
		Need: []string{"Suspend", "Delete", "Expire"},
		Run:  leaveZombie,
	}, {
		Name: "leave/nothing",
		Text: "After many terms and campaigns an election has no more in the service than after its first ones.",
		Need: []string{"Stored", needCommit},
		Run:  leaveNothing,
	},
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
			c := a.stand()
			t := c.campaign().wins()
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
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() { errs <- t.Resign(ctx) }()
		}
		for range cap(errs) {
			a.Must("Resign", arrives(a, "Resign returns", errs))
		}
		next := b.wins()
		a.Must("Resign again", t.Resign(ctx))
		a.stays(next)
		again := c.enters()
		a.Must("Resign of the old term", t.Resign(ctx))
		a.Settle()
		again.blocked()
		a.holds(next)
	})
	a.in("after the session was lost", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		a.expire(c)
		a.ends(t, elector.ErrSessionLost)
		next := b.wins()
		a.Must("Resign", t.Resign(ctx))
		a.ends(t, elector.ErrSessionLost)
		a.stays(next)
	})
	a.in("after it was deposed", func(a *arena) {
		_, t := a.lead()
		_, b := a.queue()
		a.delete(a.seat().Key)
		a.ends(t, elector.ErrDeposed)
		next := b.wins()
		a.Must("Resign", t.Resign(ctx))
		a.ends(t, elector.ErrDeposed)
		a.stays(next)
	})
}

func leaveOutOfTouch(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	a.suspend(c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := t.Resign(ctx); err == nil {
		a.Failf("Resign returned nil without a link and with an ended ctx")
	}
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
					c := a.standIn(first.client)
					b := c.enters()
					bids = append(bids, b)
				}
				leaver := bids[place]
				before := a.entries()
				if by == "cancel" {
					leaver.withdraws()
				} else {
					a.close(leaver.c)
					leaver.fails(elector.ErrClosed)
				}
				left := a.entries()
				want := len(before)
				if a.cfg.Ordered {
					want--
				}
				if len(left) != want {
					a.Failf("%d entries after it left, want %d: %v", len(left), want, harness.Keys(left))
				}
				a.stays(t)
				rest := slices.Delete(slices.Clone(bids), place, place+1)
				for len(rest) > 0 {
					t = a.passOn(t, &rest)
				}
				a.resign(t)
				if got := a.hist.count(); got != waiting {
					a.Failf("%d terms, want %d: %v", got, waiting, a.hist.order())
				}
			})
		}
	}
}

// anyReturns waits until one of the bids has won, in whatever order, and removes it from the list.
func anyReturns(a *arena, bids *[]*bid) *elector.Term {
	at := -1
	a.Until("one of those who wait is elected", func() bool {
		at = slices.IndexFunc(*bids, (*bid).returned)
		return at >= 0
	})
	winner := (*bids)[at]
	*bids = slices.Delete(*bids, at, at+1)
	return winner.wins()
}

// anyWins is anyReturns where the first in line has to win.
func anyWins(a *arena, bids *[]*bid) *elector.Term {
	first := (*bids)[0]
	t := anyReturns(a, bids)
	if a.cfg.Ordered && first.term != t {
		a.Failf("%s was elected before %s", winnerOf(a, t).id, first.c.id)
	}
	return t
}

// passOn has the leader resign, and is anyWins.
func (a *arena) passOn(t *elector.Term, bids *[]*bid) *elector.Term {
	a.resign(t)
	return anyWins(a, bids)
}

func leaveNothing(a *arena) {
	const turns = 6
	c, t := a.lead()
	turn := func() {
		next := a.standIn(c.client)
		b := next.enters()
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
	turn() // from now on there is what stays
	before := a.Stored()
	for range turns {
		turn()
	}
	a.NoMore(before, turns, "other terms")
}

func leaveZombie(a *arena) {
	resigns := deed{"resigns", func(ctx context.Context, _ *candidate, t *elector.Term) error { return t.Resign(ctx) }}
	closes := deed{"closes", func(ctx context.Context, c *candidate, _ *elector.Term) error {
		_ = c.real.Close(ctx) // the end of a lost session may be beyond confirmation
		c.cut = true
		return nil
	}}
	proclaims := deed{"proclaims", func(ctx context.Context, _ *candidate, t *elector.Term) error {
		if err := t.Proclaim(ctx, []byte("undead")); err == nil {
			return errors.New("it was not refused")
		}
		return nil
	}}
	for _, d := range []deed{resigns, proclaims} {
		a.beside("it "+d.name+" while the link is cut", func(a *arena) { zombieCutOff(a, d, true) })
	}
	for _, d := range []deed{resigns, proclaims, closes} {
		a.beside("it "+d.name+" when the link is back", func(a *arena) { zombieCutOff(a, d, false) })
	}
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

// A deed is what a zombie does.
type deed struct {
	name string
	do   func(ctx context.Context, c *candidate, t *elector.Term) error
}

// zombieCutOff cuts a leader's link until another leads. The old one does d during the cut, or after
// it.
func zombieCutOff(a *arena, d deed, during bool) {
	c, t := a.lead(a.brief)
	next, b := a.queue()
	if c.client.HoldWakeups != nil {
		a.freeze(c)
	}
	a.suspend(c)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx := a.within()
	done := make(chan error, 1)
	if during {
		wg.Go(func() { done <- d.do(ctx, c, t) })
	}
	successor := b.wins()
	a.Until("the zombie's term is over", func() bool { return t.Context().Err() != nil && !t.Valid() })
	before := a.entries()
	a.resume(c)
	if !during {
		wg.Go(func() { done <- d.do(ctx, c, t) })
	}
	a.Must("the zombie "+d.name, arrives(a, "the zombie "+d.name, done))
	a.stays(successor)
	after := a.entries()
	if len(after) == 0 || after[0].Key != before[0].Key || after[0].Rev != before[0].Rev {
		a.Failf("the successor's entry was %+v and is %+v", before, after)
	}
	a.leads(next.e, next)
}
