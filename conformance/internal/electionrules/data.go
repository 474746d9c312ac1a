package electionrules

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var dataRules = []rule{
	{
		Name: "data/leader-deleted",
		Text: "An operator who deletes the leader's entry moves leadership: the leader ends with ErrDeposed, and the next one leads.",
		Need: []string{"Delete"},
		Run:  dataLeaderDeleted,
	}, {
		Name: "data/waiting-deleted",
		Text: "A waiting candidate whose entry is deleted enrols again, at the end of the line, and is elected in its turn.",
		Need: []string{"Delete", needOrdered},
		Run:  dataWaitingDeleted,
	}, {
		Name: "data/foreign-seat",
		Text: "A foreign entry on the seat itself, which would never go, is reported with ErrStrategyMismatch and not waited for.",
		Need: []string{"Put", "Delete", needKnown, needSeat},
		Run:  dataForeignSeat,
	}, {
		Name: "data/predecessor-gone",
		Text: "A predecessor that goes just before a candidate looks at it, or waits for it, is not missed.",
		Need: []string{needStages},
		Run:  dataPredecessorGone,
	}, {
		Name: "data/election-deleted",
		Text: "When the whole election is deleted, or its directory, the leader is deposed and the candidates found it anew and go on.",
		Need: []string{"Delete", needKnown},
		Run:  dataElectionDeleted,
	}, {
		Name: "data/deleted-at-enrolment",
		Text: "An election that is deleted while a candidate is about to enrol is founded anew.",
		Need: []string{"Delete", needKnown, needStages},
		Run:  dataDeletedAtEnrolment,
	}, {
		Name: "data/foreign-children",
		Text: "Foreign and malformed children in the election's directory neither block nor mislead anybody.",
		Need: []string{"Put", "Delete", needKnown},
		Run:  dataForeignChildren,
	}, {
		Name: "data/used-up",
		Text: "When the election's directory takes no more candidates, those in it lead in their order; the others wait, say so, and lead in a new directory once none is left.",
		Need: []string{"UseUp", needOrdered, needKnown},
		Run:  dataUsedUp,
	}, {
		Name: "data/mismatch",
		Text: "A candidate with another strategy gets ErrStrategyMismatch from every call, at once, and disturbs nobody.",
		Need: []string{needLayout},
		Run:  dataMismatch,
	}, {
		Name: "data/foreign-path",
		Text: "A path that holds something else gives ErrStrategyMismatch, and can be used when that is gone.",
		Need: []string{"Put", "Delete", needLayout},
		Run:  dataForeignPath,
	}, {
		Name: "data/occupied",
		Text: "Where an ephemeral entry stands directly under the election's path, whoever founds or enters it gets ErrOccupied, which names it; persistent ones, and nested elections, are no matter.",
		Need: []string{"Put", needLayout},
		Run:  dataOccupied,
	}, {
		Name: "data/occupied-late",
		Text: "When such an entry comes later, leader and waiting candidates report it; the leader goes on, and no term begins until it is gone.",
		Need: []string{needLayout, needHooks, needBackend},
		Run:  dataOccupiedLate,
	},
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
	again := c.enters()
	again.succeeds(t)
}

func dataWaitingDeleted(a *arena) {
	_, t := a.lead()
	first, b := a.queue()
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
	t = second.succeeds(t)
	a.Settle()
	b.blocked()
	a.holds(t)
	a.ownEntry(first, b.succeeds(t))
}

func dataPredecessorGone(a *arena) {
	stages := []func(elector.StageEvent) bool{begun(elector.StageReady)}
	names := []string{"when it is about to wait"}
	if !a.cfg.LooksFirst {
		stages = append(stages, completed(elector.StageOffer))
		names = append(names, "when it has made its offer")
	}
	if a.cfg.Ordered || a.cfg.LooksFirst {
		stages = append(stages, begun(elector.StageDetermine), completed(elector.StageDetermine))
		names = append(names, "when it is about to look who stands before it", "when it has seen who stands before it")
	}
	for i, at := range stages {
		for _, going := range []string{"leader", "one that waits"} {
			if going != "leader" && !a.cfg.Ordered {
				continue
			}
			a.in(fmt.Sprintf("the %s goes %s", going, names[i]), func(a *arena) {
				_, t := a.lead()
				var middle *bid
				if going != "leader" {
					_, middle = a.queue()
				}
				c := a.stand()
				h := c.holdAt(at)
				b := c.campaign()
				h.reached("the candidate is " + names[i])
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

// extents are whether all of an election is deleted, or only its directory, which a
// foreign layout does not have.
func (a *arena) extents() []bool {
	if customLayout(a.cfg.Strategy) {
		return []bool{true}
	}
	return []bool{true, false}
}

func dataElectionDeleted(a *arena) {
	for _, whole := range a.extents() {
		what := "only its directory"
		if whole {
			what = "all of it"
		}
		a.in(what, func(a *arena) {
			viewer := a.view()
			c, t := a.lead()
			rest := a.queues(3)
			// An operator's tool may delete one entry after the other. Who leads in between is
			// deposed, as soon as it hears of it, and campaigns again.
			again := func() {
				for i, b := range rest {
					if b.returned() && b.err != nil {
						a.Failf("Campaign of %s: %v", b.c.id, b.err)
					}
					if b.returned() && !b.term.Valid() {
						rest[i] = b.c.campaign()
					}
				}
			}
			for len(rest) > 0 {
				before, terms := a.incarnation(), a.hist.count()
				if whole {
					a.delete(a.path)
				} else {
					a.delete(a.dir())
				}
				a.ends(t, elector.ErrDeposed)
				at := -1
				a.Until("one of those who waited leads in a new directory", func() bool {
					again()
					at = slices.IndexFunc(rest, func(b *bid) bool { return b.returned() && a.seated(b.term) })
					return at >= 0 && a.incarnation() != before
				})
				winner := rest[at]
				rest = slices.Delete(rest, at, at+1)
				t = winner.wins()
				if n := a.hist.count() - terms; a.Service.Virtual && n != 1 {
					a.Failf("%d terms began, but all entries went at one instant", n)
				}
				a.stays(t)
				a.leads(viewer, winner.c)
				if a.cfg.Ordered {
					a.Until("all others have enrolled again", func() bool {
						again()
						return len(a.visible()) == len(rest)+1
					})
				}
			}
			a.resign(t)
			if whole {
				a.delete(a.path)
			} else {
				a.delete(a.dir())
			}
			a.holds(c.campaign().wins())
		})
	}
}

func dataDeletedAtEnrolment(a *arena) {
	for _, whole := range a.extents() {
		for _, twice := range []bool{false, true} {
			a.in(fmt.Sprintf("all of it: %v, twice: %v", whole, twice), func(a *arena) {
				a.works()
				c := a.stand()
				a.catchesUp(c)
				h := c.holdAt(begun(elector.StageOffer))
				b := c.campaign()
				for range 2 {
					h.reached("it is about to enrol")
					if whole {
						a.delete(a.path)
					} else {
						a.delete(a.dir())
					}
					last := h
					if twice {
						h = c.holdAt(begun(elector.StageOffer))
					}
					last.release()
					if !twice {
						break
					}
					twice = false
				}
				h.release()
				a.only(c, b.wins())
			})
		}
	}
}
