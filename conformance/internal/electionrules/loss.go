package electionrules

import (
	"context"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var lossRules = []rule{
	promise("loss/leader-expires", lossLeaderExpires, needs{"Expire"},
		"A leader whose session ends stops with ErrSessionLost, the next candidate is elected, and the elector can campaign again."),
	promise("loss/waiting-expires", lossWaitingExpires, needs{"Expire", needBackend},
		"A waiting candidate whose session ends enrols again in a new session, and is elected only with an entry of that session."),
	promise("loss/at-handover", func(a *arena) { lossAtHandover(a, true) }, needs{"Delete", "Expire", "HoldWakeups"},
		"A candidate whose session ends, or whose entry is deleted, right before its predecessor's entry goes is not elected with its old entry."),
	promise("loss/after-handover", func(a *arena) { lossAtHandover(a, false) }, needs{"Delete", "Expire", "HoldWakeups"},
		"A candidate whose session ends, or whose entry is deleted, right after its predecessor's entry went, and before it hears of either, is not elected with its old entry."),
	promise("loss/short-cut-held", lossShortCutHeld, needs{"Suspend", needSuspend, needHooks},
		"With HoldWhileTrusted, a link that is cut for less than the trust window does not end the term."),
	promise("loss/short-cut-steps-down", lossStepsDown, needs{"Suspend", needSuspend},
		"With StepDownOnSuspend, the term ends with ErrSuspended at the first disconnect, and the seat is released when the link is back."),
	promise("loss/long-cut", lossLongCut, needs{"Suspend", needSuspend},
		"Under both policies, a link that is cut for longer than the trust window ends the term before another candidate can lead."),
	promise("loss/deadline", lossDeadline, needs{"Suspend", needBackend},
		"At the session's deadline, Valid is false and the Context is done, whether or not the elector has heard anything of the session."),
	promise("loss/throttled", lossThrottled, needs{"Throttle"},
		"While the service rejects requests for a while, a term continues, and a waiting candidate keeps its place."),
	promise("loss/denied", lossDenied, needs{"Deny"},
		"Withdrawn credentials end no term. A write or campaign that they do not allow is refused with ErrDenied, and works when they allow it again."),
	promise("loss/at-win", lossAtWin, needs{"Expire", needBackend, needStages},
		"A seat that was won in a session that has been lost since is not announced as a term."),
	promise("loss/process-dies", lossProcessDies, needs{"Kill", "DelayRequest", needCommit, needBackend},
		"When the leader's process dies, the next leader is elected with a higher token: at once if the will is executed, otherwise after the window. What the process had sent before is not applied any more."),
	promise("loss/waiting-cut", lossWaitingCut, needs{"Suspend", needBackend},
		"A waiting candidate that is out of touch for a while keeps its place. If it is out of touch for longer than its session lasts, it enrols again."),
}

func lossLeaderExpires(a *arena) {
	a.in("another waits", func(a *arena) {
		c, t := a.lead(a.brief)
		_, b := a.queue()
		a.expire(c)
		a.ends(t, elector.ErrSessionLost)
		next := b.wins()
		again := c.enters()
		a.holds(next)
		a.holds(again.succeeds(next))
	})
	a.in("nobody else is there", func(a *arena) {
		c, t := a.lead(a.brief)
		for range 3 {
			a.expire(c)
			a.ends(t, elector.ErrSessionLost)
			t = c.campaign().wins()
		}
	})
	if !a.lacks(needBackend) {
		a.in("the leader is about to watch its entry", lossBeforeWatch)
	}
	a.in("by the instant of the win", func(a *arena) {
		for range 5 {
			c := a.stand()
			b := c.campaign()
			a.expire(c)
			_ = b.result()
			a.Must("Campaign", b.err)
			a.close(c)
		}
	})
}

// losesSession expires the session, and waits until the backend knows.
func (c *candidate) losesSession() {
	session := c.tap.session()
	c.a.expire(c)
	c.a.Until("its session is lost", func() bool { return session.State() == backend.Lost })
}

// lossBeforeWatch ends the session between two calls of the leader. The next call must find it lost, too.
func lossBeforeWatch(a *arena) {
	c := a.stand(a.brief)
	watch := c.stall(func(p passing) bool { return p.await })
	t := c.campaign().wins()
	watch.reached("the leader is about to watch its entry")
	c.losesSession()
	watch.release()
	a.ends(t, elector.ErrSessionLost)
	a.holds(c.campaign().wins())
}

func lossWaitingExpires(a *arena) {
	c, t := a.lead()
	d, b := a.queue()
	_, third := a.queue()
	for range 2 {
		old, opened := a.entries(), d.tap.opened()
		a.expire(d)
		if a.cfg.Lists {
			a.Until("it has enrolled again", func() bool {
				now := a.visible()
				return len(now) == 3 && now[2].Session != old[2].Session && now[2].Rev > old[2].Rev
			})
		} else {
			a.Until("it has a new session", func() bool { return d.tap.opened() > opened })
		}
		b.waits()
		a.holds(t)
		if a.cfg.Ordered { // it is the last now; make third the last again
			third.withdraws()
			third = third.c.enters()
		}
	}
	third.withdraws()
	t = b.succeeds(t)
	a.ownEntry(d, t)
	c.enters()
	a.holds(t)
}

// ownEntry checks that the leader's entry belongs to its current session.
func (a *arena) ownEntry(c *candidate, t *elector.Term) {
	seat := a.seat()
	if s := c.tap.session(); s != nil && seat.Session != s.ID() {
		a.Failf("term %d has an entry of session %s, but the candidate's session is %s", t.Token(), seat.Session, s.ID())
	}
	if s := c.tap.session(); s != nil && s.State() == backend.Lost {
		a.Failf("the session of term %d is lost", t.Token())
	}
}

func lossAtHandover(a *arena, itFirst bool) {
	a.in("its session ends", func(a *arena) { expiresAtHandover(a, itFirst) })
	if a.cfg.Lists {
		a.in("its entry is deleted", func(a *arena) { deletedAtHandover(a, itFirst) })
	}
}

func deletedAtHandover(a *arena, itFirst bool) {
	_, t := a.lead()
	a.Settle()
	c, b := a.queue()
	thaw := a.freeze(c)
	all := a.entries()
	a.FailIf(len(all) != 2, "there are %d entries, want those of the leader and of the waiting candidate", len(all))
	if itFirst {
		all[0], all[1] = all[1], all[0]
	}
	for _, e := range all {
		a.delete(e.Key)
	}
	a.ends(t, elector.ErrDeposed)
	a.Settle()
	thaw()
	t = b.wins()
	a.FailIf(t.Token() == all[0].Rev || t.Token() == all[1].Rev, "%s was elected with an entry that was deleted", c.id)
	a.stays(t)
	a.only(c, t)
}

func expiresAtHandover(a *arena, itFirst bool) {
	_, t := a.lead()
	c, b := a.queue()
	// Not after the third has come: a candidate that this wakes may be reading between the two.
	thaw := a.freeze(c)
	_, third := a.queue()
	if itFirst {
		a.expire(c)
		a.resign(t)
	} else {
		a.resign(t)
		a.expire(c)
	}
	thaw()
	rest := []*bid{b, third}
	if a.cfg.Ordered {
		t = third.wins()
		a.stays(t)
		b.waits()
		a.resign(t)
		rest = rest[:1]
	}
	a.allLead(rest)
}

func lossShortCutHeld(a *arena) {
	c, t := a.lead(a.brief)
	_, b := a.queue()
	for range 3 {
		a.suspend(c)
		c.isIn(backend.Suspended)
		a.holds(t)
		a.resume(c)
		c.isIn(backend.Live)
	}
	// The term outlives the window that it had when the link was cut.
	time.Sleep(a.Service.TTL)
	a.holds(t)
	b.blocked()
	a.proclaim(t, "still here")
	b.succeeds(t)
}

func lossThrottled(a *arena) {
	leader, t := a.lead()
	next, b := a.queue()
	releaseLeader, releaseNext := leader.client.Throttle(), next.client.Throttle()
	proclaim := a.begin("Proclaim", func(ctx context.Context) error { return t.Proclaim(ctx, []byte("still here")) })
	time.Sleep(a.Service.TTL / 8)
	a.holds(t)
	releaseLeader()
	proclaim.must()
	a.holds(t)
	a.resign(t) // while the next is still throttled, as a notice may be followed by a read
	time.Sleep(a.Service.TTL / 20)
	releaseNext()
	after := b.wins()
	joins := a.stand()
	release := joins.client.Throttle()
	b = joins.campaign()
	time.Sleep(a.Service.TTL / 20)
	release()
	b.waits()
	a.holds(b.succeeds(after))
}

func lossDenied(a *arena) {
	leader, t := a.lead()
	_, b := a.queue()
	release := leader.client.Deny()
	a.Refused("Proclaim while denied", t.Proclaim(a.within(), []byte("not allowed")), backend.ErrDenied)
	time.Sleep(a.Service.TTL / 8)
	a.holds(t)
	release()
	a.proclaim(t, "allowed")
	next := b.succeeds(t)
	joins := a.stand()
	release = joins.client.Deny()
	joins.campaign().fails(backend.ErrDenied)
	release()
	c := joins.enters()
	a.holds(c.succeeds(next))
}

func lossStepsDown(a *arena) {
	a.in("the link comes back", func(a *arena) {
		c, t := a.lead(a.brief, strict) // its heartbeat soon finds that the link is back
		_, b := a.queue()
		cut := time.Now()
		a.suspend(c)
		a.ends(t, elector.ErrSuspended)
		a.FailIf(a.Service.Virtual && time.Since(cut) > a.Service.Slow, "the term ended only %v after the link was cut", time.Since(cut))
		a.Settle()
		b.blocked()
		a.resume(c)
		next := b.wins()
		a.FailIf(a.Service.Virtual && time.Since(cut) > a.Service.TTL/2,
			"the next candidate was elected only %v after the link was cut for a moment", time.Since(cut))
		c.enters().succeeds(next)
	})
	a.in("the link is cut while the candidate waits", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue(a.brief, strict)
		a.suspend(c)
		c.isIn(backend.Suspended)
		a.resume(c)
		c.isIn(backend.Live) // not merely able to hear of the resignation
		b.waits()
		a.holds(b.succeeds(t))
	})
}

func lossLongCut(a *arena) {
	for _, policy := range []elector.SuspendPolicy{elector.HoldWhileTrusted, elector.StepDownOnSuspend} {
		name, cause := "HoldWhileTrusted", elector.ErrSessionLost
		if policy == elector.StepDownOnSuspend {
			name, cause = "StepDownOnSuspend", elector.ErrSuspended
		}
		a.beside(name, func(a *arena) {
			c, t := a.lead(a.brief, func(cfg *elector.Config) { cfg.OnSuspend = policy })
			_, b := a.queue()
			a.suspend(c)
			next := b.wins()
			// A term that is still valid here would be a second one.
			a.FailIf(t.Valid(), "the old term is still valid when the next candidate is elected")
			a.ends(t, cause)
			a.resume(c)
			a.stays(next)
			a.ownEntry(c, c.enters().succeeds(next))
		})
	}
}

func lossDeadline(a *arena) {
	each(a.beside, "nothing is heard of the session: %v", []bool{false, true}, func(a *arena, deaf bool) { lossAtDeadline(a, deaf) })
	a.in("no timer has told it yet", func(a *arena) {
		c, t := a.lead()
		c.tap.oversleep()
		a.FailIf(t.Valid(), "Valid is true after the deadline of the session")
	})
}

func lossAtDeadline(a *arena, deaf bool) {
	c, t := a.lead(a.brief)
	_, b := a.queue()
	if deaf {
		c.deafen()
	}
	a.suspend(c)
	a.Settle()
	s := c.tap.session()
	deadline := s.Deadline()
	if wait := time.Until(deadline) - time.Millisecond; wait > 0 {
		time.Sleep(wait)
	}
	if a.Service.Virtual {
		a.holds(t)
	}
	// This loop watches the clock without a timer, which could be late.
	for time.Now().Before(deadline) {
		if a.Service.Virtual {
			time.Sleep(time.Until(deadline))
		}
	}
	a.FailIf(t.Valid() && !s.Deadline().After(deadline), "Valid is true at the deadline of the session")
	a.ends(t, elector.ErrSessionLost)
	if a.Service.Virtual {
		a.FailIf(time.Now().After(deadline), "the Context was done only %v after the deadline", time.Since(deadline))
		b.blocked() // the service has not yet dropped the session
	}
	b.wins()
}

func lossAtWin(a *arena) {
	last := elector.StageOffer
	if a.cfg.Ordered {
		last = elector.StageDetermine
	}
	for range 3 {
		c := a.stand(a.brief)
		h := c.holdAt(completed(last))
		b := c.campaign()
		h.reached("the candidate has won, and does not know it yet")
		c.losesSession()
		h.release()
		t := b.wins()
		a.stays(t)
		a.ownEntry(c, t)
		a.close(c)
	}
}

func lossWaitingCut(a *arena) {
	a.in("for a moment", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue()
		_, third := a.queue()
		before := a.entries()
		a.suspend(c)
		a.Settle()
		a.resume(c)
		a.Settle()
		after := a.entries()
		a.FailIf(len(after) != len(before) || after[len(after)-1].Rev != before[len(before)-1].Rev,
			"entries were %v and are %v", harness.Keys(before), harness.Keys(after))
		a.resign(t)
		rest := []*bid{b, third}
		anyWins(a, &rest)
	})
	a.in("while the leader goes", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue()
		a.suspend(c)
		a.Settle()
		a.resign(t)
		a.Settle()
		b.blocked()
		a.resume(c)
		b.wins()
	})
	a.in("for longer than the session lasts", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue(a.brief)
		a.suspend(c)
		a.Until("it has lost its session", func() bool { return c.tap.session().State() == backend.Lost })
		if a.cfg.Lists {
			a.Until("its entry is gone", func() bool { return len(a.visible()) == 1 })
		}
		b.blocked()
		a.resume(c)
		if a.cfg.Lists {
			a.Until("it has enrolled again", func() bool { return len(a.visible()) == 2 })
		}
		a.holds(t)
		a.ownEntry(c, b.succeeds(t))
	})
}

// lossProcessDies lets the leader's process die while a write of it is pending.
func lossProcessDies(a *arena) {
	for _, companion := range []bool{true, false} {
		state := "its wills are executed"
		if !companion {
			state = "nobody executes its wills"
		}
		a.in(state, func(a *arena) {
			ttl := a.Service.TTL
			c, t := a.lead()
			d, b := a.queue()
			shelf := a.stock(t, "shelf")
			sent := c.client.DelayRequest(backend.OpCompareAndSet, 2*ttl)
			p := a.startCommit(t, elector.CompareAndSet(shelf[0].Key, newValue, shelf[0].Version))
			a.Until("a commit is pending", sent)
			deadline := c.tap.session().Deadline()
			died := time.Now()
			wills := c.client.Kill()
			c.cut = true // its Close cannot be confirmed
			a.hist.note("%s: its process dies", c.id)
			if companion {
				for _, w := range wills {
					a.Must("execute the "+w.String(), backend.Execute(a.within(), d.client.Backend, w))
				}
			}
			next := b.wins()
			switch took := time.Since(died); {
			case companion && took > ttl/2:
				a.Failf("the next leader was elected only %v after the process died, and the session timeout is %v", took, ttl)
			case !companion && time.Now().Before(deadline):
				a.Failf("the next leader was elected %v before the deadline of the leader that died", time.Until(deadline))
			case next.Token() <= t.Token():
				a.Failf("the next leader has token %d, but the leader that died had %d", next.Token(), t.Token())
			}
			a.ends(t, elector.ErrSessionLost)
			_, err := p.result()
			a.Refused("a commit of a process that died", err, elector.ErrIndeterminate)
			time.Sleep(2*ttl + ttl/4) // so that late requests arrive
			a.untouched(shelf...)
			a.holds(next)
		})
	}
}
