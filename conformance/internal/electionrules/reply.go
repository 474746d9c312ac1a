package electionrules

import (
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var replyRules = []rule{
	promise("reply/lost", func(a *arena) { replyOrRequest(a, losesReply) }, needs{"LoseReply"},
		"Whichever write's reply is lost, the write has its effect once, and the caller gets the right answer."),
	promise("reply/lost-request", func(a *arena) { replyOrRequest(a, losesRequest) }, needs{"LoseRequest"},
		"Whichever write's request is lost, the write has its effect once in the end, and the caller gets the right answer."),
	promise("reply/lost-and-cut", replyLostAndCut, needs{"CutReply", needHooks},
		"If the session is lost before the outcome of an enrolment is known, the campaign continues in a new session, with one entry."),
	promise("ask/lost-reply", askLostReply, needs{needAsk, needHooks, "CutReply"},
		"A leader receives a request that comes before it knows that it leads, because the reply to its offer is lost."),
}

// A loss returns the function that arms a process to lose something of its next write of a kind.
type loss func(*kit.Client) func(backend.OpKind)

func losesReply(c *kit.Client) func(backend.OpKind)   { return c.LoseReply }
func losesRequest(c *kit.Client) func(backend.OpKind) { return c.LoseRequest }

func replyOrRequest(a *arena, fault loss) {
	for _, of := range []struct {
		write string
		kinds []backend.OpKind
	}{
		{"the founding", []backend.OpKind{backend.OpCompareAndSet}},
		{"the enrolment for a vacant seat", []backend.OpKind{backend.OpCreateEphemeral, backend.OpEnqueue}},
		{"the write that announces the leader", []backend.OpKind{backend.OpUpdate}},
	} {
		a.in("of "+of.write, func(a *arena) {
			c := a.stand()
			lose(fault(c.client), of.kinds...)
			t := c.campaign().wins()
			a.only(c, t)
			d, b := a.queue()
			a.stays(t)
			a.leads(d.e, c)
			b.succeeds(t)
		})
	}
	a.in("of the founding, by two at once", func(a *arena) {
		c, d := a.stand(), a.stand()
		fault(c.client)(backend.OpCompareAndSet)
		fault(d.client)(backend.OpCompareAndSet)
		bids := []*bid{c.campaign(), d.campaign()}
		t := anyReturns(a, &bids)
		a.stays(t)
		bids[0].blocked()
		bids[0].succeeds(t)
	})
	if a.cfg.Lists {
		a.in("of the enrolment behind others", func(a *arena) {
			_, t := a.lead()
			c := a.stand()
			loseEnrolment(fault(c.client))
			b := c.campaign()
			a.Until("it has entered", func() bool { return len(a.visible()) >= 2 })
			b.waits()
			_, third := a.queue()
			n := len(a.entries())
			a.FailIf(n != 3, "%d entries of 3 candidates", n)
			rest := []*bid{b, third}
			a.passOn(a.passOn(t, &rest), &rest)
		})
	}
	a.in("of Proclaim", func(a *arena) {
		c, t := a.lead()
		viewer := a.view()
		for i := range 3 {
			fault(c.client)(backend.OpUpdate)
			value := fmt.Sprintf("value %d", i)
			a.proclaim(t, value)
			a.sees(viewer, c, t, value)
		}
		a.only(c, t)
	})
	if !a.lacks(needCommit) {
		a.in("of Commit", func(a *arena) {
			c, t := a.lead()
			a.speak(t)
			for i, w := range writes {
				s := a.stock(t, fmt.Sprint(i))
				a.hist.note("%s will be lost", w.name)
				fault(c.client)(w.kind)
				made := a.commit(t, w.ops(s)...)
				a.effect(w, s, made)
				a.untouched(w.after(s, made)...)
			}
			a.only(c, t)
		})
	}
	a.in("of Resign", func(a *arena) {
		c, t := a.lead()
		fault(c.client)(backend.OpDelete)
		a.resign(t)
		a.left(0, "after Resign has returned")
		a.works()
		t = c.campaign().wins()
		_, b := a.queue()
		fault(c.client)(backend.OpDelete)
		a.stays(b.succeeds(t))
	})
}

// only checks that the candidate leads, with the only entry that exists.
func (a *arena) only(c *candidate, t *elector.Term) {
	a.stays(t)
	a.leads(c.e, c)
	a.left(1, "of one candidate")
}

func replyLostAndCut(a *arena) {
	for _, e := range a.enrolments() {
		a.beside(e.state, func(a *arena) {
			c, b, leader, others := a.enrolsCut(e)
			c.sawState(backend.Lost)
			a.Until("the entry went with its session", func() bool { return len(a.visible()) == others })
			b.blocked()
			a.resume(c)
			if e.occupied {
				a.Until("it has entered again", func() bool { return len(a.visible()) == others+1 })
				b.waits()
				a.holds(leader)
				a.resign(leader)
			}
			t := b.wins()
			a.only(c, t)
			_, err := c.e.Campaign(ended())
			a.FailIf(err == nil, "Campaign with an ended ctx returned no error")
		})
	}
}
