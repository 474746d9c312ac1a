package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var serverRules = []electionRule{
	{
		name: "server/unreachable-at-start",
		text: "A campaign that reaches no server says so by Hooks.Retry, and is elected when one can be reached.",
		need: []string{"Suspend", string(AbilityHooks)},
		run:  serverUnreachable,
	},
	{
		name:  "server/none-at-start",
		text:  "A campaign that begins while there is no server at all is elected when one comes, or ends with its ctx.",
		need:  []string{"Stop", string(AbilityHooks)},
		alone: true,
		run:   serverNone,
	},
	{
		name:  "server/restart",
		text:  "A server that is restarted under its candidates: a leader whose window has not passed keeps its term, and one leads in the end.",
		need:  []string{"Stop"},
		alone: true,
		run:   serverRestart,
	},
	{
		name:  "server/long-outage",
		text:  "A service that is away for longer than the sessions' time ends the term, and one candidate leads when it is back.",
		need:  []string{"Stop"},
		alone: true,
		run:   serverLongOutage,
	},
	{
		name:  "server/member-killed",
		text:  "Candidates on different members of an ensemble, of which one is killed, go on with the others; one leads at any time.",
		need:  []string{"StopMember"},
		alone: true,
		run:   serverMemberKilled,
	},
}

func serverMemberKilled(a *arena) {
	members := a.svc.Members
	var all []*candidate
	for i := range members {
		client, free := a.svc.ClientAt(a.t, i)
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
		a.must("StopMember", a.svc.StopMember(i))
		// Those who were connected to it go on with another, in their old session if
		// that is still there.
		if t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), a.patience())
			err := t.Resign(ctx)
			cancel()
			a.must("Resign", err)
		}
		t = anyReturns(a, &rest)
		a.until("all others see who leads", func() bool {
			for _, c := range all {
				ctx, cancel := context.WithTimeout(context.Background(), a.svc.TTL)
				l, err := c.e.Leader(ctx)
				cancel()
				if err != nil || l.Token != t.Token() && t.Valid() {
					return false
				}
			}
			return true
		})
		a.must("StartMember", a.svc.StartMember(i))
		for _, c := range all {
			if !slices.ContainsFunc(rest, func(b *bid) bool { return b.c == c }) && winnerOf(a, t) != c {
				rest = append(rest, c.campaign())
			}
		}
	}
}

// stopService takes the whole service away.
func (a *arena) stopService() {
	a.t.Helper()
	a.hist.note("the service is stopped")
	for _, c := range a.candidates {
		c.cut = true
	}
	a.must("Stop", a.svc.Stop())
}

func (c *candidate) retries() int {
	return len(c.reports(func(r report) bool { return r.what == isRetry && r.err != nil }))
}

func serverUnreachable(a *arena) {
	c := a.stand()
	a.suspend(c)
	b := c.campaign()
	a.until("Hooks.Retry is called", func() bool { return c.retries() >= 2 })
	b.blocked()
	ctx, cancel := context.WithTimeout(context.Background(), a.svc.TTL/2)
	defer cancel()
	if l, err := c.e.Leader(ctx); err == nil {
		a.failf("Leader without a server is %+v", l)
	}
	a.resume(c)
	a.holds(b.wins())
}

func serverNone(a *arena) {
	c, d := a.stand(), a.stand()
	a.stopService()
	started := false
	defer func() {
		if !started {
			_ = a.svc.Start()
		}
	}()
	b := c.campaign()
	a.until("Hooks.Retry is called", func() bool { return c.retries() >= 2 })
	ctx, cancel := context.WithTimeout(context.Background(), a.svc.TTL)
	hopeless := d.campaignIn(ctx, cancel)
	hopeless.fails(context.DeadlineExceeded)
	b.blocked()
	a.must("Start", a.svc.Start())
	started = true
	t := b.wins()
	d.campaign().waits()
	a.holds(t)
}

func serverRestart(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	_, third := a.queue()
	window := time.Time{}
	if s := c.tap.session(); s != nil {
		window = s.Deadline()
	}
	a.stopService()
	if a.svc.Virtual { // else it takes its time anyway
		a.settle()
		time.Sleep(a.svc.TTL / 4)
	}
	a.must("Start", a.svc.Start())
	quick := time.Now().Before(window.Add(-a.svc.TTL / 4))
	a.settle()
	// Sessions outlive a quick restart, but only if they get in touch in time.
	if s := c.tap.session(); quick && s != nil && s.State() == backend.Live {
		a.holds(t)
	}
	a.oneLeads(t, b, third)
}

// oneLeads waits until one leads after an outage, be it the old leader or another,
// and sees all those who wait elected after it.
func (a *arena) oneLeads(t *elector.Term, rest ...*bid) {
	a.t.Helper()
	viewer := a.view()
	var l elector.Leader
	a.until("one leads", func() bool {
		ctx, cancel := a.within()
		defer cancel()
		var err error
		l, err = viewer.Leader(ctx)
		return err == nil
	})
	a.until("the leader knows it", func() bool {
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

// anyReturns is anyWins where the order may have been lost.
func anyReturns(a *arena, bids *[]*bid) *elector.Term {
	a.t.Helper()
	at := -1
	a.until("one of those who wait is elected", func() bool {
		for i, b := range *bids {
			if b.returned() {
				at = i
				return true
			}
		}
		return false
	})
	b := (*bids)[at]
	*bids = append((*bids)[:at:at], (*bids)[at+1:]...)
	return b.wins()
}

func serverLongOutage(a *arena) {
	c, t := a.lead()
	_, b := a.queue()
	_, third := a.queue()
	a.stopService()
	started := false
	defer func() {
		if !started {
			_ = a.svc.Start()
		}
	}()
	a.ends(t, elector.ErrSessionLost)
	again := c.campaign()
	a.settle()
	a.must("Start", a.svc.Start())
	started = true
	rest := []*bid{b, third, again}
	for len(rest) > 0 {
		t = anyReturns(a, &rest)
		a.holds(t)
		a.resign(t)
	}
}
