package electionrules

import (
	"context"
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var cancelRules = []rule{
	promise("cancel/every-stage", cancelEveryStage, needs{needStages},
		"A campaign that is cancelled, at any stage, leaves no entry behind if it returns an error, and has a valid term if it returns none."),
	promise("cancel/lost-reply", cancelLostReply, needs{"CutReply", needHooks},
		"A campaign that is cancelled while the reply to its enrolment is lost returns, and its entry is removed as soon as the link is back."),
	promise("cancel/handover", cancelHandover, needs{"HoldWakeups"},
		"A campaign that is cancelled after it got the seat, but before it knows that, passes the seat on."),
	promise("cancel/out-of-touch", cancelOutOfTouch, needs{"Suspend"},
		"A campaign that is cancelled without a link returns. If it waits, its entry goes when the link is back, or with its session. If it has no session yet, it leaves nothing behind."),
	promise("cancel/deadline", cancelDeadline, nil,
		"A Campaign whose ctx has ended, or reaches its deadline, returns ctx's error and leaves nothing behind."),
}

func cancelEveryStage(a *arena) {
	for _, occupied := range []bool{false, true} {
		for at, fired := 0, true; fired; at++ {
			state := fmt.Sprintf("the seat is vacant, at the campaign's stage event %d", at+1)
			if occupied {
				state = fmt.Sprintf("another leads at first, at the campaign's stage event %d", at+1)
			}
			a.in(state, func(a *arena) { fired = cancelAt(a, occupied, at) })
		}
	}
}

// cancelAt cancels a campaign at its stage event number at. It returns false if there are fewer.
func cancelAt(a *arena, occupied bool, at int) (fired bool) {
	ctx, cancel := context.WithCancel(context.Background())
	var seen int
	c := a.stand(func(cfg *elector.Config) {
		cfg.Hooks.Stage = func(elector.StageEvent) {
			if seen == at {
				cancel()
			}
			seen++
		}
	})
	var leader *elector.Term
	if occupied {
		leader = a.standIn(c.client).campaign().wins()
	}
	b := c.campaignIn(ctx)
	if occupied {
		b.rests()
		// The cancellation may be pending: then the two race.
		a.resign(leader)
	}
	_ = b.result()
	fired = ctx.Err() != nil
	switch {
	case b.err == nil:
		a.stays(b.term)
		a.resign(b.term)
	case !fired:
		a.Failf("Campaign: %v", b.err)
	default:
		a.Refused("Campaign", b.err, context.Canceled)
		a.left(0, "when the cancelled Campaign has returned")
	}
	a.works()
	cancel()
	return fired
}

// loseEnrolment arms the loss of the reply to a candidate's enrolment.
func loseEnrolment(fault func(backend.OpKind)) {
	lose(fault, backend.OpCreateEphemeral, backend.OpEnqueue)
}

func lose(fault func(backend.OpKind), kinds ...backend.OpKind) {
	for _, kind := range kinds {
		fault(kind)
	}
}

// An enrolment is a state of a rule in which the reply to one of these ops is lost.
type enrolment struct {
	state    string
	occupied bool // somebody leads
	ops      []backend.OpKind
}

// enrolments returns the ways to enrol. Most candidates do one of two ops. One that waits with an entry for a
// seat enrols in line, and then takes the seat, if that is vacant: each of the two is lost once.
func (a *arena) enrolments() []enrolment {
	either := []backend.OpKind{backend.OpCreateEphemeral, backend.OpEnqueue}
	switch {
	case a.cfg.Lists && a.cfg.Seat:
		return []enrolment{
			{"occupied: false, of the entry in line", false, either[1:]},
			{"occupied: false, of the seat", false, either[:1]},
			{"occupied: true", true, either[1:]},
		}
	case a.cfg.Lists:
		return []enrolment{{"occupied: false", false, either}, {"occupied: true", true, either}}
	}
	return []enrolment{{"occupied: false", false, either}} // candidates that wait have no entry
}

// enrolsCut makes a candidate enrol, and cuts its link by the reply. others is how many entries other
// candidates have; leader is nil if there is none.
func (a *arena) enrolsCut(e enrolment) (c *candidate, b *bid, leader *elector.Term, others int) {
	a.works() // the election is founded
	if e.occupied {
		_, leader = a.lead()
		others = 1
	}
	c = a.stand(a.brief)
	c.cut = true
	lose(c.client.CutReply, e.ops...)
	b = c.campaign()
	c.sawState(backend.Suspended)
	return c, b, leader, others
}

func cancelLostReply(a *arena) {
	for _, e := range a.enrolments() {
		for _, back := range []bool{true, false} {
			a.beside(fmt.Sprintf("%s, link comes back in time: %v", e.state, back), func(a *arena) {
				c, b, leader, others := a.enrolsCut(e)
				b.blocked()
				b.withdraws()
				if back {
					a.resume(c)
				} else {
					c.sawState(backend.Lost)
				}
				a.Until("the entry is gone", func() bool { return len(a.visible()) == others })
				if leader != nil {
					a.holds(leader)
					a.resign(leader)
				}
				a.works()
			})
		}
	}
}

func cancelHandover(a *arena) {
	each(a.in, "notices come %s", []string{"before it is cancelled", "after it is cancelled", "never"}, func(a *arena, thaw string) {
		_, t := a.lead()
		c, b := a.queue()
		_, third := a.queue()
		release := a.freeze(c)
		a.resign(t)
		if thaw == "before it is cancelled" {
			release() // they race
		}
		b.cancel()
		_ = b.result()
		if thaw == "after it is cancelled" {
			release()
		}
		if b.err == nil {
			a.resign(b.term)
		} else {
			a.Refused("Campaign", b.err, context.Canceled)
		}
		third.wins()
		a.left(1, "where only the leader's may exist")
	})
}

func cancelOutOfTouch(a *arena) {
	each(a.in, "link comes back in time: %v", []bool{true, false}, func(a *arena, back bool) {
		_, t := a.lead()
		c, b := a.queue(a.brief)
		_, third := a.queue()
		a.suspend(c)
		a.Settle()
		b.withdraws()
		if back {
			a.resume(c)
		}
		a.Until("its entry is gone", func() bool { return len(a.visible()) == 1+a.inLineOf(1) })
		a.holds(t)
		third.succeeds(t)
		a.resume(c)
		a.Settle()
		c.enters()
	})
	a.in("it has no session yet", func(a *arena) {
		c := a.stand()
		a.suspend(c)
		b := c.campaign()
		a.Settle()
		b.blocked()
		b.withdraws()
		a.resume(c)
		a.Settle()
		a.left(0, "of a campaign that was cancelled before it had a session")
		a.works()
		c.campaign().wins()
	})
}

func cancelDeadline(a *arena) {
	_, t := a.lead()
	c := a.stand()
	_, err := c.e.Campaign(ended())
	a.Refused("Campaign with a ctx that has ended", err, context.Canceled)
	_, err = c.e.Campaign(a.soon(a.Service.TTL / 2))
	a.Refused("Campaign past its deadline", err, context.DeadlineExceeded)
	a.left(1, "where only the leader's may exist")
	a.holds(t)
	a.resign(t)
	c.campaign().wins()
}
