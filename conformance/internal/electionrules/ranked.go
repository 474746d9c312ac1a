package electionrules

import (
	"context"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/election"
)

var rankedRules = []rule{
	promise("ranked/best-leads", rankedBestLeads, needs{needRanks},
		"The best of the waiting candidates leads next. Candidates of equal rank lead in the order of their arrival."),
	promise("ranked/changes", rankedChanges, needs{needRanks},
		"A new rank counts at once, both for a waiting candidate and for a leader. The candidate still counts from its first arrival, and the leader keeps its term."),
	promise("ranked/negative", rankedNegative, needs{needRanks, needAsk},
		"A candidate whose rank is below zero is listed, never leads, and does not block others. A leader whose rank falls below zero is asked to go."),
	promise("ranked/quorum", rankedQuorum, needs{needRanks},
		"No term begins until a quorum of candidates that may lead stands, and then the best of them leads. A leader continues without a quorum."),
	promise("ranked/preempts", rankedPreempts, needs{needRanks, needAsk},
		"Only with Preempt, the best candidate asks a leader of lower rank to go, after the hold-off. It never asks a leader of equal rank, so that leadership does not swing."),
	promise("ranked/designated", rankedDesignated, needs{needRanks, needNominee, needLayout, needAsk, needBackend},
		"A designated candidate that may lead goes before all others until the designation is taken back; of several with the ID, the best. No candidate takes the seat without knowing the designation. With Preempt, the designated candidate asks even a better leader to go, and nobody asks it."),
	promise("ranked/newcomer", rankedNewcomer, needs{needRanks, needBackend},
		"A better candidate that arrives while somebody leads wakes nobody, and leads next."),
	promise("ranked/listed", rankedListed, needs{needRanks, needBackend},
		"Candidates lists every candidate that stands all the time, even one that takes the seat or changes its rank meanwhile."),
	promise("ranked/wakes-few", rankedWakesFew, needs{needRanks, needBackend, needLayout, needStages},
		"With equal ranks, a handover wakes only the successor and the candidate behind it. The successor lists once, and reads only the candidates that it does not know: the notice brings the seat and the record."),
}

// byRank is a ranking by rank alone.
var byRank kit.Ranking

// A contender is a candidate with a rank of its own.
type contender struct {
	*bid
	change func(rank ...int64)
}

// contend makes a contender that campaigns.
func (a *arena) contend(r kit.Ranking, set ...func(*elector.Config)) *contender {
	a.hist.promised.Ordered = false // the rank decides
	s, change := a.cfg.Rank(r)
	c := a.stand(append(set, func(cfg *elector.Config) { cfg.Strategy = s })...)
	return &contender{c.campaign(), change}
}

// again makes it campaign again.
func (c *contender) again() { c.bid = c.c.campaign() }

// leadsBy makes a contender that leads.
func (a *arena) leadsBy(r kit.Ranking, rank ...int64) (*contender, *elector.Term) {
	r.Rank = rank
	c := a.contend(r)
	return c, c.wins()
}

// waitsBy makes a contender that waits.
func (a *arena) waitsBy(r kit.Ranking, rank ...int64) *contender {
	r.Rank = rank
	c := a.contend(r)
	c.waits()
	return c
}

// line makes contenders that wait, in this order.
func (a *arena) line(ranks ...int64) (all []*contender) {
	for _, rank := range ranks {
		all = append(all, a.waitsBy(byRank, rank))
	}
	return all
}

// succeed makes each lead in this order after t, and nobody else, and returns the last term.
func (a *arena) succeed(t *elector.Term, order ...*contender) *elector.Term {
	for i, c := range order {
		t = c.succeeds(t)
		for _, later := range order[i+1:] {
			later.blocked()
		}
		a.holds(t)
	}
	return t
}

// inLine waits until Candidates lists these, the leader first.
func (a *arena) inLine(viewer elector.Elector, all ...*contender) {
	var ids []string
	for _, c := range all {
		ids = append(ids, c.c.id)
	}
	a.lists(viewer, ids...)
}

// designate designates, as an operator does in a process of its own.
func (a *arena) designate(id string) {
	a.hist.note("%q is designated", id)
	by := election.Designation{ID: id, By: "operator"}
	a.Must("Designate", election.Designate(a.within(), a.outside(), a.cfg.Strategy, a.path, by))
}

// askedBy waits until the term is asked to go, by c.
func (a *arena) askedBy(t *elector.Term, c *contender) {
	arrives(a, "the leader is asked to go", t.Asked())
	r, _ := t.Request()
	a.FailIf(r.By != c.c.id, "the leader is asked to go by %q, want %s: %+v", r.By, c.c.id, r)
	a.holds(t)
	c.blocked()
}

func rankedBestLeads(a *arena) {
	viewer := a.view()
	leader, t := a.leadsBy(byRank, 1)
	all := a.line(0, 5)
	worse := a.waitsBy(byRank, 5, -3)
	equal := a.waitsBy(byRank, 5, 0) // missing numbers count as 0
	last := a.waitsBy(byRank, 3, 9)
	order := []*contender{all[1], equal, worse, last, all[0]}
	a.inLine(viewer, append([]*contender{leader}, order...)...)
	a.succeed(t, order...)
}

func rankedChanges(a *arena) {
	viewer := a.view()
	leader, t := a.leadsBy(byRank, 5)
	line := a.line(1, 2, 3)
	b, c, d := line[0], line[1], line[2]
	a.inLine(viewer, leader, d, c, b)
	b.change(9)
	a.inLine(viewer, leader, b, d, c)
	d.change(0)
	a.inLine(viewer, leader, b, c, d)
	c.change(0) // it has a new entry, but came before the other
	b.change(8)
	leads := func(rank ...int64) {
		a.Until("the leader is listed with its rank", func() bool {
			all, err := viewer.Candidates(a.within())
			a.Must("Candidates", err)
			return len(all) == 4 && all[0].Leads && slices.Equal(all[0].Rank, rank)
		})
	}
	leader.change(4)
	leads(4)
	a.inLine(viewer, leader, b, c, d)
	t = a.succeed(t, b)
	b.change(2)
	leader.again()
	leads(2)
	a.inLine(viewer, b, leader, c, d)
	a.succeed(t, leader, c, d)
}

func rankedNegative(a *arena) {
	viewer := a.view()
	leader, t := a.leadsBy(byRank, 1)
	never := a.line(-1)[0]
	a.inLine(viewer, leader, never)
	a.resign(t)
	a.vacant(viewer)
	a.inLine(viewer, never)
	a.Settle()
	never.blocked()
	second, t := a.leadsBy(byRank, 0)
	line := a.line(5, 1)
	line[0].change(-2) // the other has waited for this
	a.inLine(viewer, second, line[1], never, line[0])
	t = a.succeed(t, line[1])
	never.blocked()
	line[0].blocked()
	line[1].change(-3)
	arrives(a, "a leader that may not lead any more is asked to go", t.Asked())
	a.holds(t)
	a.resign(t)
	a.vacant(viewer)
	line[1].again()
	a.inLine(viewer, never, line[0], line[1])
	a.Settle()
	for _, c := range append(line, never) {
		c.blocked()
	}
	never.change(0)
	a.holds(never.wins())
	line[0].blocked()
}

func rankedQuorum(a *arena) {
	viewer := a.view()
	quorum := kit.Ranking{Quorum: 2}
	first := a.waitsBy(quorum, 1)
	never := a.waitsBy(quorum, -1)
	a.Settle()
	first.blocked()
	best, t := a.leadsBy(quorum, 2)
	first.blocked()
	third := a.waitsBy(quorum, 0)
	a.inLine(viewer, best, first, third, never)
	t = a.succeed(t, first)
	a.resign(t)
	a.vacant(viewer)
	third.waits()
	a.Settle()
	third.blocked() // it stands alone
	first.again()
	t = first.wins()
	third.cancel()
	_ = third.result()
	a.inLine(viewer, first, never)
	a.stays(t)
	a.resign(t)
	first.again()
	first.waits()
	a.Settle()
	first.blocked()
	never.change(0)
	a.holds(first.wins())
}

func rankedPreempts(a *arena) {
	a.in("without Preempt", func(a *arena) {
		leader, t := a.leadsBy(byRank, 1)
		line := a.line(9, 1)
		a.unasked(t)
		a.holds(t)
		line[0].blocked()
		leader.change(0)
		a.inLine(a.view(), leader, line[0], line[1])
		a.unasked(t)
		a.succeed(t, line...)
	})
	a.in("at once", func(a *arena) {
		r := kit.Ranking{Preempt: true}
		leader, t := a.leadsBy(r, 1)
		equal, _ := a.waitsBy(r, 1), a.waitsBy(r, 0)
		a.unasked(t)
		r.Rank = []int64{2}
		best := a.contend(r)
		a.askedBy(t, best)
		t = best.succeeds(t)
		leader.again()
		leader.waits()
		a.unasked(t)
		best.change(0) // now the waiting ones are better, and the equal one came first
		a.askedBy(t, equal)
		t = equal.succeeds(t)
		best.again()
		best.waits()
		a.unasked(t)
	})
	a.in("after a while", func(a *arena) {
		r := kit.Ranking{Preempt: true, HoldOff: a.Service.TTL / 4}
		_, t := a.leadsBy(r, 1)
		other := a.waitsBy(r, 0)
		began := time.Now()
		other.change(2)
		a.askedBy(t, other)
		took := time.Since(began)
		a.FailIf(took < r.HoldOff, "the leader was asked to go after only %v, but the hold-off is %v", took, r.HoldOff)
	})
	a.in("not for long enough", func(a *arena) {
		r := kit.Ranking{Preempt: true, HoldOff: 1000 * time.Hour}
		leader, t := a.leadsBy(r, 1)
		other := a.waitsBy(r, 2)
		a.unasked(t)
		other.change(0)
		a.inLine(a.view(), leader, other)
		a.unasked(t)
	})
}

func rankedDesignated(a *arena) {
	a.in("a waiting candidate", func(a *arena) {
		viewer := a.view()
		leader, t := a.leadsBy(byRank, 5)
		line := a.line(9, 1, 3)
		best, worst, middle := line[0], line[1], line[2]
		a.designate(worst.c.id)
		a.inLine(viewer, leader, worst, best, middle)
		a.unasked(t)
		t = a.succeed(t, worst)
		a.designate("")
		a.inLine(viewer, worst, best, middle)
		t = a.succeed(t, best)
		never := a.line(-1)[0]
		a.designate(never.c.id)
		a.inLine(viewer, best, middle, never)
		t = a.succeed(t, middle)
		never.blocked()
		last := a.line(7)[0]
		never.change(0)
		a.inLine(viewer, middle, never, last)
		a.succeed(t, never, last)
	})
	a.in("a candidate that does not stand yet", func(a *arena) {
		_, t := a.leadsBy(byRank, 5)
		id := a.id(99)
		a.designate(id)
		best := a.line(9)[0]
		late := a.contend(byRank, func(cfg *elector.Config) { cfg.ID = id })
		late.waits()
		a.succeed(t, late, best)
	})
	a.in("several candidates with the ID", func(a *arena) {
		_, t := a.leadsBy(byRank, 5)
		best := a.line(9)[0]
		id := a.id(99)
		var same []*contender
		for rank := range int64(3) {
			c := a.contend(kit.Ranking{Rank: []int64{rank}}, func(cfg *elector.Config) { cfg.ID = id })
			c.waits()
			same = append(same, c)
		}
		a.designate(id)
		a.succeed(t, same[2], same[1], same[0], best)
	})
	each(a.in, "the candidate that takes the seat does not know of the change; the designation is taken back: %v", []bool{false, true}, func(a *arena, taken bool) {
		_, t := a.leadsBy(byRank, 5)
		line := a.line(9, 1)
		first, next, now := line[0], line[1], line[1].c.id
		if taken {
			a.designate(now)
			first, next, now = next, first, ""
		}
		takes := first.c.stall(commits(backend.OpCreateEphemeral))
		a.resign(t)
		takes.reached("it takes the seat")
		a.designate(now)
		takes.release()
		a.succeed(next.wins(), first)
	})
	a.in("with Preempt", func(a *arena) {
		r := kit.Ranking{Preempt: true}
		leader, t := a.leadsBy(r, 5)
		worse := a.waitsBy(r, 1)
		a.unasked(t)
		a.designate(worse.c.id)
		a.askedBy(t, worse)
		t = worse.succeeds(t)
		leader.again()
		leader.waits()
		a.unasked(t)
		a.designate("")
		a.askedBy(t, leader)
	})
}

func rankedNewcomer(a *arena) {
	_, t := a.leadsBy(byRank, 5)
	line := a.line(1, 0)
	a.Settle()
	woken := func() (n int) {
		for _, c := range line {
			n += c.c.tap.Counts().WakeUps
		}
		return n
	}
	before := woken()
	newcomers := a.line(9)
	a.Settle()
	now := woken()
	a.FailIf(now != before, "the waiting candidates were woken %d times by one that arrived", now-before)
	t = a.succeed(t, newcomers[0])
	line[0].waits()
	next := a.line(3, 4)
	a.succeed(t, next[1], next[0], line[0], line[1])
}

func rankedListed(a *arena) {
	_, t := a.leadsBy(byRank, 5)
	other := a.line(3)[0]
	viewer := a.stand()
	a.catchesUp(viewer)
	for _, meanwhile := range []struct {
		what string
		does func()
	}{
		{"it changes its rank", func() {
			old := a.entries()[1].Key
			other.change(7)
			a.Until("it stands with another rank", func() bool { all := a.entries(); return len(all) == 2 && all[1].Key != old })
		}},
		{"it takes the seat", func() { a.succeed(t, other) }},
	} {
		reads := viewer.stall(gets(a.entries()[1].Key))
		var all []elector.Candidate
		lists := a.begin("Candidates", func(ctx context.Context) (err error) {
			all, err = viewer.e.Candidates(ctx)
			return err
		})
		reads.reached("Candidates reads the entry of the waiting candidate")
		meanwhile.does()
		reads.release()
		lists.must()
		a.FailIf(!slices.ContainsFunc(all, func(c elector.Candidate) bool { return c.ID == other.c.id }),
			"Candidates lists %+v while %s: %s is missing, though it has stood all the time", all, meanwhile.what, other.c.id)
	}
}

func rankedWakesFew(a *arena) {
	const waiting = 6
	_, t := a.lead()
	// The next one reads all that have come after it, to know that it is the best.
	next := func(behind int) meter.Counts {
		return meter.Counts{WakeUps: 1, Waits: 1, Lists: 1, Gets: 2 + behind - 1}
	}
	a.costs(t, a.queues(waiting), next, func(i int, winner *bid, _, won meter.Counts) {
		won.Sent, won.Received, won.Watches = 0, 0, 0
		want := meter.Counts{WakeUps: 1, Lists: 1, Commits: 1}
		if i == 0 { // it has not been told who came after it
			want.Gets += waiting - 1
		}
		a.FailIf(won != want, "%s was woken to lead, and made calls %+v before it led, want %+v", winner.c.id, won, want)
	})
}
