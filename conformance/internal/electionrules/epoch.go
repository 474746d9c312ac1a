package electionrules

import (
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var epochRules = []rule{
	promise("epoch/dense", epochDense, needs{needDense, "Delete", "Expire", "LoseReply", "LoseRequest"},
		"The first token is 1, and each term raises it by one, however the last term ended and whichever reply was lost."),
	promise("epoch/stalled-claim", epochStalled, needs{needDense, needBackend},
		"A claim that is delayed on its way until another has overtaken it takes nothing and raises nothing."),
	promise("epoch/raised", epochRaised, needs{needDense, needKnown, "Put", needCommit},
		"When somebody else raises the epoch, the leader's next write is refused and ends its term. The next term continues from the raised epoch."),
	promise("epoch/restart", epochRestart, needs{needDense, "Stop"},
		"After a restart of the service the token continues from where it was, even if no candidate was there meanwhile."),
}

// epochs counts the terms of an election. Nothing else may start terms there.
type epochs struct {
	a    *arena
	last uint64
}

// next checks that the term's token follows the last.
func (e *epochs) next(after string, t *elector.Term) *elector.Term {
	e.a.FailIf(t.Token() != e.last+1, "token %d after %s, want %d", t.Token(), after, e.last+1)
	e.last = t.Token()
	e.a.speak(t) // its guards are those of the claim
	return t
}

func epochDense(a *arena) {
	e := &epochs{a: a}
	c := a.stand()
	t := e.next("the founding", c.campaign().wins())
	a.resign(t)
	t = e.next("a resignation", c.campaign().wins())
	rest := a.queues(4)
	t = e.next("a handover to several who wait", a.passOn(t, &rest))
	a.delete(a.seat().Key)
	a.ends(t, elector.ErrDeposed)
	t = e.next("a deletion of the leader's entry", anyWins(a, &rest))
	a.expire(winnerOf(a, t))
	a.ends(t, elector.ErrSessionLost)
	t = e.next("an expiry", anyWins(a, &rest))
	a.close(winnerOf(a, t))
	t = e.next("a close", anyWins(a, &rest))
	a.resign(t)
	for _, c := range a.candidates {
		a.close(c)
	}
	c = a.stand()
	t = e.next("the absence of all candidates", c.campaign().wins())
	for _, fault := range []struct {
		name string
		arm  loss
	}{{"a claim whose reply was lost", losesReply}, {"a claim whose request was lost", losesRequest}} {
		rest = a.queues(3)
		for _, b := range rest {
			fault.arm(b.c.client)(backend.OpCreateEphemeral)
		}
		for len(rest) > 0 {
			t = e.next(fault.name, a.passOn(t, &rest))
			a.stays(t)
		}
	}
}

func epochStalled(a *arena) {
	each(a.in, "at what is a %v", []backend.OpKind{backend.OpCompareAndSet, backend.OpCreateEphemeral}, func(a *arena, kind backend.OpKind) {
		e := &epochs{a: a}
		c, t := a.lead()
		e.next("the founding", t)
		for range 3 {
			slow := a.stand()
			g := slow.stall(commits(kind))
			a.resign(t)
			late := slow.campaign()
			g.reached("its claim is on its way")
			t = e.next("a claim that is stalled", c.campaign().wins())
			g.release()
			late.waits()
			a.holds(t)
			t = e.next("a claim that came late", late.succeeds(t))
			c = slow
		}
	})
}

func epochRaised(a *arena) {
	writes := map[string]func(a *arena, t *elector.Term) error{
		"Commit": func(a *arena, t *elector.Term) error {
			_, err := a.tryCommit(t, elector.Create(a.own("late"), nil))
			return err
		},
		"Proclaim": func(a *arena, t *elector.Term) error {
			return t.Proclaim(a.within(), []byte("late"))
		},
	}
	for name, write := range writes {
		a.in("the next write is a "+name, func(a *arena) {
			e := &epochs{a: a}
			_, t := a.lead()
			e.next("the founding", t)
			_, b := a.queue()
			for _, g := range t.Guard().Conditions {
				if g.Entry.Session == "" {
					e.last += 10
					a.put(g.Entry.Key, fmt.Sprint(e.last))
					break
				}
			}
			a.Refused("a write under an old epoch", write(a, t), elector.ErrDeposed)
			a.ends(t, elector.ErrDeposed)
			e.next("a foreign write", b.wins())
			a.untouched(backend.Entry{Key: a.own("late")})
		})
	}
}

func epochRestart(a *arena) {
	e := &epochs{a: a}
	c := a.stand(a.brief)
	a.resign(e.next("the founding", c.campaign().wins()))
	a.without(func() {})
	t := e.next("a restart", c.campaign().wins())
	a.without(func() { a.ends(t, elector.ErrSessionLost) })
	a.resign(e.next("a restart that ended a term", c.campaign().wins()))
	a.close(c)
	a.without(func() {})
	e.next("a restart while nobody was there", a.stand().campaign().wins())
}
