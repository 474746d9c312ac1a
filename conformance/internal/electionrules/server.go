package electionrules

import (
	"context"
	"slices"
	"time"

	"github.com/elector-go/elector"
)

var serverRules = []rule{
	{
		Name: "server/unreachable-at-start",
		Text: "A campaign that reaches no server says so by Hooks.Retry, and is elected when one can be reached.",
		Need: []string{"Suspend", needHooks},
		Run:  serverUnreachable,
	}, {
		Name: "server/restart",
		Text: "A server that is restarted under its candidates: a leader whose window has not passed keeps its term, and one leads in the end.",
		Need: []string{"Stop"},
		Run:  serverRestart,
	}, {
		Name: "server/outage",
		Text: "A service that is away for longer than the sessions' time ends the term. A campaign that begins meanwhile is elected when it is back, or ends with its ctx.",
		Need: []string{"Stop"},
		Run:  serverOutage,
	}, {
		Name: "server/member-killed",
		Text: "Candidates on different members of an ensemble, of which one is killed, go on with the others; one leads at any time.",
		Need: []string{"StopMember"},
		Run:  serverMemberKilled,
	},
}

func serverMemberKilled(a *arena) {
	members := a.Service.Members
	var all []*candidate
	for i := range members {
		client, free := a.Service.ClientAt(a.T, i)
		c := a.standIn(client)
		a.leader(c.e) // it has a session by then, with this member
		free()
		c.cut = true
		all = append(all, c)
	}
	t := all[0].campaign().wins()
	rest := []*bid{all[1].campaign(), all[2%members].campaign()}
	for _, b := range rest {
		b.waits()
	}
	for i := range members {
		a.hist.note("member %d is killed", i)
		a.Must("StopMember", a.Service.StopMember(i))
		// Those who were connected to it go on with another, in their old session if
		// that is still there.
		if t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), a.Patience())
			err := t.Resign(ctx)
			cancel()
			a.Must("Resign", err)
		}
		t = anyReturns(a, &rest)
		a.Until("all others see who leads", func() bool {
			for _, c := range all {
				ctx, cancel := context.WithTimeout(context.Background(), a.Service.TTL)
				l, err := c.e.Leader(ctx)
				cancel()
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

// without takes the whole service away meanwhile.
func (a *arena) without(meanwhile func()) {
	a.hist.note("the service is stopped")
	a.outage = true
	for _, c := range a.candidates {
		c.cut = true
	}
	a.Must("Stop", a.Service.Stop())
	started := false
	defer func() {
		if !started {
			_ = a.Service.Start() // the rule is broken already
		}
	}()
	meanwhile()
	a.Must("Start", a.Service.Start())
	started = true
}

func (c *candidate) retries() int {
	return len(c.reports(func(r report) bool { return r.what == isRetry && r.err != nil }))
}

func serverUnreachable(a *arena) {
	c := a.stand()
	a.suspend(c)
	b := c.campaign()
	a.Until("Hooks.Retry is called", func() bool { return c.retries() >= 2 })
	b.blocked()
	ctx, cancel := context.WithTimeout(context.Background(), a.Service.TTL/2)
	defer cancel()
	if l, err := c.e.Leader(ctx); err == nil {
		a.Failf("Leader without a server is %+v", l)
	}
	a.resume(c)
	a.holds(b.wins())
}

func serverRestart(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	_, third := a.queue()
	a.without(func() {
		if a.Service.Virtual { // else it takes its time anyway
			a.Settle()
			time.Sleep(a.Service.TTL / 4)
		}
	})
	a.Settle()
	// A session outlives a restart if it gets in touch in time.
	if s := c.tap.session(); s != nil && t.Context().Err() != nil && time.Now().Before(s.Deadline()) {
		a.Failf("the term has ended %v before its window passed", time.Until(s.Deadline()))
	}
	a.oneLeads(t, b, third)
}

// oneLeads waits until one leads after an outage, be it the old leader or another,
// and sees all those who wait elected after it.
func (a *arena) oneLeads(t *elector.Term, rest ...*bid) {
	viewer := a.view()
	var l elector.Leader
	a.Until("one leads", func() bool {
		var err error
		l, err = viewer.Leader(a.within())
		return err == nil
	})
	a.Until("the leader knows it", func() bool {
		if l.Token == t.Token() && t.Valid() {
			return true
		}
		for _, b := range rest {
			if b.returned() && b.err == nil && b.term.Valid() {
				return true
			}
		}
		return false
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
		if _, lacks := a.cfg.Why[needHooks]; !lacks {
			a.Until("Hooks.Retry is called", func() bool { return newcomer.retries() >= 2 })
		}
		ctx, cancel := context.WithTimeout(context.Background(), a.Service.TTL/4)
		hopeless.campaignIn(ctx, cancel).fails(context.DeadlineExceeded)
		a.ends(t, elector.ErrSessionLost)
		rest = append(rest, begins, c.campaign())
		a.Settle()
		begins.blocked()
	})
	for len(rest) > 0 {
		t = anyReturns(a, &rest)
		a.holds(t)
		a.resign(t)
	}
	a.holds(hopeless.campaign().wins())
}
