package electionrules

import (
	"context"
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var replyRules = []rule{
	{
		Name: "reply/lost",
		Text: "Whichever write's reply is lost, it has its one effect and the caller gets the right answer.",
		Need: []string{"LoseReply"},
		Run:  func(a *arena) { replyOrRequest(a, losesReply) },
	}, {
		Name: "reply/lost-request",
		Text: "Whichever write does not get through, it has its one effect in the end and the caller gets the right answer.",
		Need: []string{"LoseRequest"},
		Run:  func(a *arena) { replyOrRequest(a, losesRequest) },
	}, {
		Name: "reply/lost-and-cut",
		Text: "If the session is lost before the fate of an enrolment is known, the campaign goes on in a new one, with one entry.",
		Need: []string{"CutReply", needHooks},
		Run:  replyLostAndCut,
	}, {
		Name: "ask/lost-reply",
		Text: "A request that comes before the leader knows that it leads, as the reply to its offer is lost, is heard.",
		Need: []string{needAsk, needHooks, "CutReply"},
		Run:  askLostReply,
	},
}

// A loss is what arms a process to lose something of its next write of a kind.
type loss func(*kit.Client) func(backend.OpKind)

func losesReply(c *kit.Client) func(backend.OpKind)   { return c.LoseReply }
func losesRequest(c *kit.Client) func(backend.OpKind) { return c.LoseRequest }

func replyOrRequest(a *arena, fault loss) {
	a.in("of the founding", func(a *arena) {
		c := a.stand()
		fault(c.client)(backend.OpCompareAndSet)
		t := c.campaign().wins()
		a.only(c, t)
		_, b := a.queue()
		b.succeeds(t)
	})
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
	a.in("of the enrolment for a vacant seat", func(a *arena) {
		c := a.stand()
		loseEnrolment(fault(c.client))
		a.only(c, c.campaign().wins())
	})
	if a.cfg.Ordered {
		a.in("of the enrolment behind others", func(a *arena) {
			_, t := a.lead()
			c := a.stand()
			fault(c.client)(backend.OpCreateEphemeral)
			fault(c.client)(backend.OpEnqueue)
			b := c.campaign()
			a.Until("it has entered", func() bool { return len(a.visible()) >= 2 })
			b.waits()
			_, third := a.queue()
			if n := len(a.entries()); n != 3 {
				a.Failf("%d entries of 3 candidates", n)
			}
			t = b.succeeds(t)
			third.succeeds(t)
		})
	}
	a.in("of what announces the leader", func(a *arena) {
		c := a.stand()
		fault(c.client)(backend.OpUpdate)
		t := c.campaign().wins()
		d, b := a.queue()
		a.stays(t)
		a.leads(d.e, c)
		b.succeeds(t)
	})
	a.in("of Proclaim", func(a *arena) {
		c, t := a.lead()
		viewer := a.view()
		for i := range 3 {
			fault(c.client)(backend.OpUpdate)
			value := fmt.Sprintf("value %d", i)
			a.proclaim(t, value)
			a.Until("others see the value", func() bool {
				l, err := a.leader(viewer)
				return err == nil && string(l.Value) == value && l.Token == t.Token()
			})
		}
		a.only(c, t)
	})
	if _, lacks := a.cfg.Why[needCommit]; !lacks {
		a.in("of Commit", func(a *arena) {
			c, t := a.lead()
			a.speak(t)
			for i, w := range writes {
				s := a.stock(t, fmt.Sprint(i))
				a.hist.note("%s is to be lost", w.name)
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
		c.campaign().wins()
	})
	a.in("of Resign, while others wait", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		fault(c.client)(backend.OpDelete)
		next := b.succeeds(t)
		a.stays(next)
	})
}

// only checks that the candidate leads, with the one entry that there is.
func (a *arena) only(c *candidate, t *elector.Term) {
	a.stays(t)
	a.leads(c.e, c)
	a.left(1, "of one candidate")
}

func replyLostAndCut(a *arena) {
	for _, e := range a.enrolments() {
		a.beside(e.state, func(a *arena) {
			a.works()
			n := 0
			var leader *elector.Term
			if e.occupied {
				_, leader = a.lead()
				n = 1
			}
			c := a.stand(a.brief)
			c.cut = true
			lose(c.client.CutReply, e.ops...)
			b := c.campaign()
			c.sawState(backend.Suspended)
			c.sawState(backend.Lost)
			a.Until("the entry went with its session", func() bool { return len(a.visible()) == n })
			b.blocked()
			a.resume(c)
			if e.occupied {
				a.Until("it has entered anew", func() bool { return len(a.visible()) == n+1 })
				b.waits()
				a.holds(leader)
				a.resign(leader)
			}
			t := b.wins()
			a.only(c, t)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := c.e.Campaign(ctx); err == nil {
				a.Failf("Campaign with an ended ctx returned no error")
			}
		})
	}
}
