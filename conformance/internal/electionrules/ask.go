package electionrules

import (
	"context"
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
)

var askRules = []rule{
	promise("ask/run", askRun, needs{needAsk},
		"When a leader is asked to go, the ctx of its lead function ends with ErrAsked. The leader resigns when the function has returned, not before, and then the next candidate leads."),
	promise("ask/by-hand", askByHand, needs{needAsk, needHooks},
		"A term reports once that it is asked to go, by whom and why, between Elected and Ended. It continues until it resigns, and the next term is not asked."),
	promise("ask/proclaim", askProclaim, needs{needAsk, needBackend},
		"A leader receives a request even if it publishes a value at the same time, and the value is published."),
	promise("ask/lost", askLost, needs{needAsk, "Expire"},
		"A request to a leader whose session is lost ends with its term: the leader's next term is not asked."),
	promise("ask/suspended", askSuspended, needs{needAsk, "Suspend"},
		"A leader that is out of touch receives a request when it is back in touch."),
	promise("ask/nobody", askNobody, needs{needAsk},
		"Ask returns ErrNoLeader if nobody leads, and ErrConfig if an argument is wrong, and changes nothing."),
}

var request = elector.Request{By: "operator", Why: "deploy"}

// asks asks the leader to go.
func (a *arena) asks(r elector.Request) (elector.Leader, error) {
	a.hist.note("the leader is asked to go %v", r)
	return election.Ask(a.within(), a.outside(), a.cfg.Strategy, a.path, election.Request(r))
}

// ask asks the leader, which must be t's, to go.
func (a *arena) ask(t *elector.Term) {
	leader, err := a.asks(request)
	a.Must("Ask", err)
	a.FailIf(leader.Token != t.Token(), "Ask returned that it has asked %+v, but the leader has token %d", leader, t.Token())
}

// hears waits until the term reports that it is asked to go.
func (a *arena) hears(t *elector.Term) {
	arrives(a, fmt.Sprintf("term %d is asked to go", t.Token()), t.Asked())
	if r, asked := t.Request(); !asked || r != request {
		a.Failf("the request to term %d is %+v, %v", t.Token(), r, asked)
	}
}

// unasked checks that nobody has asked the term to go.
func (a *arena) unasked(t *elector.Term) {
	a.Settle()
	select {
	case <-t.Asked():
		a.Failf("term %d is asked to go, but nobody has asked it", t.Token())
	default:
	}
	if r, asked := t.Request(); asked {
		a.Failf("term %d has the request %+v, but nobody has asked it", t.Token(), r)
	}
}

func askRun(a *arena) {
	j := a.stand().obeys()
	t := j.term()
	_, b := a.queue()
	a.ask(t)
	j.told(elector.ErrAsked)
	a.stays(t)
	b.blocked()
	j.finish(nil) // nil does not mean "the work is done": it was told to stop
	a.ends(t, elector.ErrResigned)
	next := b.wins()
	a.unasked(next)
	a.resign(next)
	again := j.term()
	a.unasked(again)
	a.holds(again)
	j.stops()
}

func askByHand(a *arena) {
	c, t := a.lead()
	a.unasked(t)
	_, b := a.queue()
	for range 2 {
		a.ask(t)
	}
	a.hears(t)
	a.stays(t)
	b.blocked()
	a.speak(t)
	a.resign(t)
	c.heard(request)
	next := b.wins()
	a.unasked(next)
	a.ask(next)
	a.hears(next)

	a.in("Elected, and then Asked, takes long", func(a *arena) {
		c := a.stand()
		elected, asked := c.holdIn(isElected), c.holdIn(isAsked)
		b := c.campaign()
		elected.reached("Elected is called")
		_, err := a.asks(request)
		a.Must("Ask", err)
		a.Settle()
		a.FailIf(len(c.reports(isAsked)) > 0, "Asked was called before Elected had returned")
		elected.release()
		t := b.wins()
		asked.reached("Asked is called")
		a.resign(t)
		a.Settle()
		a.FailIf(len(c.reports(isEnded)) > 0, "Ended was called before Asked had returned")
		asked.release()
	})
}

func askProclaim(a *arena) {
	a.in("the leader has not heard of it when it publishes", func(a *arena) {
		c, t := a.lead()
		a.speak(t)
		thaw := c.freeze()
		a.ask(t)
		a.speak(t)
		thaw()
		a.hears(t)
		a.sees(c.e, c, t, string(newValue))
		a.stays(t)
	})
	a.in("it is asked between the read and the write of Proclaim", func(a *arena) {
		c, t := a.lead()
		a.speak(t)
		thaw, g := c.freeze(), c.stall(commits(backend.OpUpdate))
		proclaim := a.begin("Proclaim", func(ctx context.Context) error { return t.Proclaim(ctx, newValue) })
		g.reached("the value is on its way")
		a.ask(t)
		g.release()
		proclaim.must()
		thaw()
		a.hears(t)
		a.stays(t)
	})
}

func askLost(a *arena) {
	c, t := a.lead()
	a.ask(t)
	a.hears(t)
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	next := c.campaign().wins()
	a.unasked(next)
	a.holds(next)
}

func askSuspended(a *arena) {
	c, t := a.lead()
	a.speak(t)
	a.operator.look() // opens its session now: the trust window will be running
	a.outside()
	a.suspend(c)
	a.ask(t)
	_, heard := t.Request()
	a.FailIf(heard, "a leader that is out of touch has received a request")
	a.resume(c)
	a.hears(t)
	a.holds(t)
}

func askLostReply(a *arena) {
	a.works() // the election exists, and nobody stands
	for range 10 {
		c := a.stand()
		c.cut = true
		if a.cfg.Seat { // of the seat: an entry in line is no leader's yet
			lose(c.client.CutReply, backend.OpCreateEphemeral)
		} else {
			loseEnrolment(c.client.CutReply)
		}
		b := c.campaign()
		c.sawState(backend.Suspended) // the offer is made, and its reply lost
		leader, err := a.asks(request)
		a.resume(c)
		t := b.wins()
		if err == nil && t.Token() == leader.Token {
			a.hears(t)
			a.holds(t)
			return
		}
		// Its session was lost meanwhile.
		a.isNot("Ask", err, elector.ErrConfig, elector.ErrStrategyMismatch)
		c.unfault()
		a.leaves(c, t)
	}
	a.Failf("the leader was never asked before it knew that it leads")
}

func askNobody(a *arena) {
	_, err := a.asks(request)
	a.Refused("Ask where there is no election", err, elector.ErrNoLeader)
	c, t := a.lead()
	_, err = a.asks(elector.Request{Why: string(make([]byte, election.MaxRequest+1))})
	a.Refused("Ask with a reason that is too long", err, elector.ErrConfig)
	a.unasked(t)
	a.leaves(c, t)
	_, err = a.asks(request)
	a.Refused("Ask where nobody leads", err, elector.ErrNoLeader)
}
