package electionrules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

var dataRules = []rule{
	promise("data/leader-deleted", dataLeaderDeleted, needs{"Delete"},
		"When an operator deletes the leader's entry, the leader's term ends with ErrDeposed, and the next candidate leads."),
	promise("data/waiting-deleted", dataWaitingDeleted, needs{"Delete", needLists},
		"A waiting candidate whose entry is deleted enrols again, behind the others, and is elected in its turn."),
	promise("data/foreign-seat", dataForeignSeat, needs{"Put", "Delete", needKnown, needSeat},
		"A foreign entry on the seat, which would never go, is reported with ErrStrategyMismatch. Candidates do not wait for it."),
	promise("data/predecessor-gone", dataPredecessorGone, needs{needStages},
		"A candidate notices a predecessor that goes just before the candidate looks at it or waits for it."),
	promise("data/election-deleted", dataElectionDeleted, needs{"Delete", needKnown},
		"When the whole election, or its directory, is deleted, the leader is deposed, and the candidates found it again and continue, even one that is about to enrol."),
	promise("data/foreign-children", dataForeignChildren, needs{"Put", "Delete", needKnown},
		"Foreign and malformed children in the election's directory neither block nor mislead any candidate."),
	promise("data/used-up", dataUsedUp, needs{"UseUp", needLists, needKnown},
		"When the election's directory takes no more candidates, those in it lead in their order. The others wait, report that, and lead in a new directory once none is left."),
	promise("data/mismatch", dataMismatch, needs{needLayout},
		"Every call of a candidate with another strategy returns ErrStrategyMismatch at once, and disturbs nobody."),
	promise("data/foreign-path", dataForeignPath, needs{"Put", "Delete", needLayout},
		"If the election's path holds something else, calls return ErrStrategyMismatch. The path can be used when that is gone."),
	promise("data/occupied", dataOccupied, needs{"Put", needLayout},
		"If there is an ephemeral entry directly under the election's path, candidates that found or enter the election get ErrOccupied, which names it. Persistent entries and nested elections do not matter."),
	promise("data/occupied-late", dataOccupiedLate, needs{needLayout, needHooks, needBackend},
		"If an ephemeral entry appears directly under the election's path later, the leader and the waiting candidates report it. The leader continues, and no term begins until the entry is gone."),
}

func dataLeaderDeleted(a *arena) {
	c, t := a.lead()
	rest := a.queues(3)
	for len(rest) > 0 {
		a.delete(a.seat().Key)
		a.ends(t, elector.ErrDeposed)
		t = anyWins(a, &rest)
		a.holds(t)
	}
	if s := c.tap.session(); s != nil {
		a.Until("the deposed leader's session is live", func() bool { return s.State() == backend.Live })
	}
	c.enters().succeeds(t)
}

func dataWaitingDeleted(a *arena) {
	_, t := a.lead()
	_, b := a.queue()
	_, second := a.queue()
	before := a.entries()
	a.delete(before[1].Key)
	a.Until("it has enrolled again", func() bool {
		now := a.visible()
		return len(now) == 3 && now[1].Rev == before[2].Rev
	})
	a.Settle()
	b.blocked()
	second.blocked()
	a.holds(t)
	rest := []*bid{second, b}
	t = a.passOn(t, &rest)
	a.Settle()
	blocked(rest...)
	a.holds(t)
	t = a.passOn(t, &rest)
	a.ownEntry(winnerOf(a, t), t)
}

func dataPredecessorGone(a *arena) {
	type instant struct {
		name string
		at   func(elector.StageEvent) bool
	}
	instants := []instant{{"when it is about to wait", begun(elector.StageReady)}}
	if !a.cfg.LooksFirst {
		instants = append(instants, instant{"when it has made its offer", completed(elector.StageOffer)})
	}
	if a.cfg.Ordered || a.cfg.LooksFirst {
		instants = append(instants, instant{"when it is about to look up who is before it", begun(elector.StageDetermine)},
			instant{"when it has seen who is before it", completed(elector.StageDetermine)})
	}
	for _, in := range instants {
		for _, going := range []string{"leader", "one that waits"} {
			if going != "leader" && !a.cfg.Lists {
				continue
			}
			a.in(fmt.Sprintf("the %s goes %s", going, in.name), func(a *arena) {
				_, t := a.lead()
				var middle *bid
				if going != "leader" {
					_, middle = a.queue()
				}
				c := a.stand()
				h := c.holdAt(in.at)
				b := c.campaign()
				h.reached("the candidate is there, " + in.name)
				if middle == nil {
					a.resign(t)
				} else {
					middle.withdraws()
				}
				h.release()
				if middle != nil {
					b.waits()
					a.holds(t)
					a.resign(t)
				}
				a.holds(b.wins())
			})
		}
	}
}

// extents returns how much of an election is deleted. A foreign layout has no directory.
func (a *arena) extents() []string {
	if is[strategy.CustomLayout](a.cfg.Strategy) {
		return []string{"all of it"}
	}
	return []string{"all of it", "its directory"}
}

func (a *arena) uproot(extent string) {
	if extent == "all of it" {
		a.delete(a.path)
	} else {
		a.delete(a.dir())
	}
}

func dataElectionDeleted(a *arena) {
	each(a.in, "%s", a.extents(), func(a *arena, extent string) {
		viewer := a.view()
		c, t := a.lead()
		rest := a.queues(3)
		// An operator's tool may delete the entries one by one. A candidate that leads in between is
		// deposed as soon as it hears of it, and campaigns again.
		again := func() {
			for i, b := range rest {
				if b.returned() && !b.wins().Valid() {
					rest[i] = b.c.campaign()
				}
			}
		}
		for len(rest) > 0 {
			before, terms := a.incarnation(), a.hist.count()
			a.uproot(extent)
			a.ends(t, elector.ErrDeposed)
			at := -1
			a.Until("one of the waiting candidates leads in a new directory", func() bool {
				again()
				at = slices.IndexFunc(rest, func(b *bid) bool { return b.returned() && a.seated(b.term) })
				return at >= 0 && a.incarnation() != before
			})
			winner := rest[at]
			rest = slices.Delete(rest, at, at+1)
			t = winner.wins()
			n := a.hist.count() - terms
			a.FailIf(a.Service.Virtual && n != 1, "%d terms began, but all entries went at one instant", n)
			a.stays(t)
			a.leads(viewer, winner.c)
			if a.cfg.Lists {
				a.Until("all others have enrolled again", func() bool {
					again()
					return len(a.visible()) == len(rest)+1
				})
			}
		}
		a.resign(t)
		a.uproot(extent)
		a.holds(c.campaign().wins())
	})
	if a.lacks(needStages) {
		return
	}
	for _, extent := range a.extents() {
		for _, times := range []int{1, 2} {
			a.in(fmt.Sprintf("%s is deleted when a candidate is about to enrol, %d times", extent, times), func(a *arena) {
				a.works()
				c := a.stand()
				a.catchesUp(c)
				h := c.holdAt(begun(elector.StageOffer))
				b := c.campaign()
				for n := range times {
					h.reached("it is about to enrol")
					a.uproot(extent)
					last := h
					if n+1 < times {
						h = c.holdAt(begun(elector.StageOffer))
					}
					last.release()
				}
				a.only(c, b.wins())
			})
		}
	}
}

func dataUsedUp(a *arena) {
	const left = 3
	old := a.usedUp(left)
	_, t := a.lead()
	var inside, outside []*bid
	for len(outside) < 3 {
		b, room := a.stand().campaign(), len(inside) < left-1 && len(outside) == 0
		if room && !a.lacks(needHooks) && !a.lacks(needStages) { // the leader's seat may have taken some of it
			a.Until(b.c.id+" waits for its turn, or reports that it must wait", func() bool { return b.isReady() || b.isOutside() })
		}
		switch {
		case room && !b.isOutside():
			b.waits()
			inside = append(inside, b)
			continue
		case !a.lacks(needHooks):
			a.Until(b.c.id+" reports that it must wait", b.isOutside)
		}
		outside = append(outside, b)
	}
	a.FailIf(len(inside) == 0, "nobody got in")
	for {
		a.stays(t)
		now := a.dir()
		a.FailIf(now != old, "the election has a new directory, %s, while a candidate leads in %s", now, old)
		blocked(append(inside, outside...)...)
		n := len(a.entries())
		a.FailIf(n != 1+len(inside), "the used-up directory has %d entries, want those of the %d candidates that got in", n, 1+len(inside))
		a.resign(t)
		if len(inside) == 0 {
			break
		}
		t = anyWins(a, &inside)
	}
	for len(outside) > 0 {
		t = anyReturns(a, &outside) // they enrol in the order in which they come
		a.holds(t)
		a.FailIf(a.dir() == old, "term %d is in %s, which is used up", t.Token(), old)
		a.resign(t)
	}
	a.works()
}

// usedUp founds the election, and returns its directory, which takes only left more entries.
func (a *arena) usedUp(left int) (dir string) {
	a.works()
	dir = a.dir()
	a.operator.close()
	a.Must("use up "+dir, a.Service.UseUp(dir, left))
	return dir
}

// isOutside reports whether the campaign has reported that the directory takes no more.
func (b *bid) isOutside() bool {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	for _, r := range b.c.log[b.log:] {
		if r.what == isRetry && errors.Is(r.err, backend.ErrUsedUp) {
			return true
		}
	}
	return false
}
