package electionrules

import (
	"context"
	"slices"
	"time"

	"github.com/elector-go/elector"
)

var serverRules = []rule{
	promise("server/unreachable-at-start", serverUnreachable, needs{"Suspend", needHooks},
		"A campaign that reaches no server reports that by Hooks.Retry, and is elected when it can reach one."),
	promise("server/restart", serverRestart, needs{"Stop"},
		"When the service is restarted, a leader whose window has not passed keeps its term, and in the end one candidate leads."),
	promise("server/outage", serverOutage, needs{"Stop"},
		"A service that is down for longer than the sessions last ends the term. A campaign that begins meanwhile is elected when the service is back, or ends with its ctx."),
	promise("server/member-killed", serverMemberKilled, needs{"StopMember"},
		"When one member of an ensemble is killed, candidates that were connected to different members continue with the others, and one leads at any time."),
}

func serverMemberKilled(a *arena) {
	members := a.Service.Members
	var all []*candidate
	for i := range members {
		client, free := a.Service.ClientAt(a.T, i)
		c := a.standIn(a.noted(client))
		a.leader(c.e) // now it has a session, with this member
		free()
		c.cut = true
		all = append(all, c)
	}
	t := all[0].campaign().wins()
	rest := []*bid{all[1].campaign(), all[2%members].campaign()}
	rest[0].waits()
	rest[1].waits()
	for i := range members {
		a.hist.note("member %d is killed", i)
		a.Must("StopMember", a.Service.StopMember(i))
		// The candidates that were connected to it continue with another member, in their old session if
		// that still exists.
		if t.Context().Err() == nil {
			a.Must("Resign", t.Resign(a.within()))
		}
		t = anyReturns(a, &rest)
		a.Until("all others see who leads", func() bool {
			for _, c := range all {
				l, err := c.e.Leader(a.soon(a.Service.TTL))
				if err != nil || l.Token != t.Token() && t.Valid() {
					return false
				}
			}
			return true
		})
		a.Must("StartMember", a.Service.StartMember(i))
		for _, c := range all {
			if !slices.ContainsFunc(rest, func(b *bid) bool { return b.c == c }) && winnerOf(a, t) != c {
				rest = append(rest, c.campaign())
			}
		}
	}
}

// without stops the whole service during meanwhile. The suite starts it again if the rule fails.
func (a *arena) without(meanwhile func()) {
	a.hist.note("the service is stopped")
	a.outage = true
	for _, c := range a.candidates {
		c.cut = true
	}
	a.Must("Stop", a.Service.Stop())
	meanwhile()
	a.Must("Start", a.Service.Start())
}

func (c *candidate) retries() int {
	return len(slices.DeleteFunc(c.reports(isRetry), func(r report) bool { return r.err == nil }))
}

func serverUnreachable(a *arena) {
	c := a.stand()
	a.suspend(c)
	b := c.campaign()
	a.Until("Hooks.Retry is called", func() bool { return c.retries() >= 2 })
	b.blocked()
	l, err := c.e.Leader(a.soon(a.Service.TTL / 2))
	a.FailIf(err == nil, "Leader without a server returned %+v", l)
	a.resume(c)
	a.holds(b.wins())
}

func serverRestart(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	_, third := a.queue()
	a.without(func() {
		if a.Service.Virtual { // a real service takes time anyway
			a.Settle()
			time.Sleep(a.Service.TTL / 4)
		}
	})
	a.Settle()
	// A session survives a restart if it reconnects in time.
	s := c.tap.session()
	if s != nil && t.Context().Err() != nil && time.Now().Before(s.Deadline()) {
		a.Failf("the term has ended %v before its window passed", time.Until(s.Deadline()))
	}
	a.oneLeads(t, b, third)
}

// oneLeads waits until one leads after an outage, the old leader or another, and checks that all waiting
// candidates are elected after it.
func (a *arena) oneLeads(t *elector.Term, rest ...*bid) {
	viewer := a.view()
	var l elector.Leader
	a.Until("one leads", func() bool {
		var err error
		l, err = viewer.Leader(a.within())
		return err == nil
	})
	a.Until("the leader knows it", func() bool {
		won := func(b *bid) bool { return b.returned() && b.err == nil && b.term.Valid() }
		return l.Token == t.Token() && t.Valid() || slices.ContainsFunc(rest, won)
	})
	for len(rest) > 0 {
		if t.Context().Err() == nil {
			a.resign(t)
		}
		t = anyReturns(a, &rest)
	}
	a.holds(t)
}

func serverOutage(a *arena) {
	c, t := a.lead(a.brief)
	_, b := a.queue(a.brief)
	_, third := a.queue(a.brief)
	newcomer, hopeless := a.stand(), a.stand()
	rest := []*bid{b, third}
	a.without(func() {
		begins := newcomer.campaign()
		if !a.lacks(needHooks) {
			a.Until("Hooks.Retry is called", func() bool { return newcomer.retries() >= 2 })
		}
		hopeless.campaignIn(a.soon(a.Service.TTL / 4)).fails(context.DeadlineExceeded)
		a.ends(t, elector.ErrSessionLost)
		rest = append(rest, begins, c.campaign())
		a.Settle()
		begins.blocked()
	})
	a.allLead(rest)
	a.holds(hopeless.campaign().wins())
}
