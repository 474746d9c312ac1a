package electionrules

import (
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/conformance/kit"
)

var rankedRules = []rule{
	{
		Name: "ranked/best-leads",
		Text: "The best of those who wait leads next; those of equal rank lead in the order of their arrival.",
		Need: []string{needRanks},
		Run:  rankedBestLeads,
	}, {
		Name: "ranked/changes",
		Text: "A rank that changes counts at once, of a candidate that waits and of one that leads, and it keeps its arrival and its term.",
		Need: []string{needRanks},
		Run:  rankedChanges,
	}, {
		Name: "ranked/negative",
		Text: "A candidate whose rank is below zero is listed, never leads, and keeps nobody else from it; a leader whose rank falls there is asked to go.",
		Need: []string{needRanks, needAsk},
		Run:  rankedNegative,
	}, {
		Name: "ranked/quorum",
		Text: "Nobody comes to lead until a quorum of those stands that may, and then the best of them does; who leads goes on without it.",
		Need: []string{needRanks},
		Run:  rankedQuorum,
	}, {
		Name: "ranked/sticky",
		Text: "A leader is not asked to go for a better one, unless the strategy is told to.",
		Need: []string{needRanks, needAsk},
		Run:  rankedSticky,
	}, {
		Name: "ranked/preempts",
		Text: "Where it is told to, the best candidate asks a leader of lower rank to go, after the hold-off, and none of equal rank: leadership does not swing.",
		Need: []string{needRanks, needAsk},
		Run:  rankedPreempts,
	}, {
		Name: "ranked/designated",
		Text: "Who is designated goes before all others until that is taken back, if it may lead; the best, of several with the ID; and nobody takes the seat who does not know.",
		Need: []string{needRanks, needNominee, needLayout, needAsk, needBackend},
		Run:  rankedDesignated,
	}, {
		Name: "ranked/unseated",
		Text: "Where candidates ask leaders to go, the designated one asks a better one, and nobody asks the designated one.",
		Need: []string{needRanks, needNominee, needLayout, needAsk},
		Run:  rankedUnseated,
	}, {
		Name: "ranked/newcomer",
		Text: "A better one that comes while somebody leads wakes nobody, and leads next.",
		Need: []string{needRanks, needBackend},
		Run:  rankedNewcomer,
	}, {
		Name: "ranked/listed",
		Text: "Candidates lists whoever stands all the time, also one that takes the seat or changes its rank meanwhile.",
		Need: []string{needRanks, needBackend},
		Run:  rankedListed,
	}, {
		Name: "ranked/wakes-few",
		Text: "With equal ranks a handover wakes the successor and the one behind it, and nobody else; the successor lists once, and reads only whom it does not know: the notice brings the seat and the record.",
		Need: []string{needRanks, needBackend, needLayout, needStages},
		Run:  rankedWakesFew,
	},
}

// A contender is a candidate with a rank of its own.
type contender struct {
	*bid
	change func(rank ...int64)
}

// contend makes one that stands.
func (a *arena) contend(r kit.Ranking, set ...func(*elector.Config)) *contender {
	a.hist.promised.Ordered = false // the rank decides
	s, change := a.cfg.Rank(r)
	c := a.stand(append(set, func(cfg *elector.Config) { cfg.Strategy = s })...)
	return &contender{c.campaign(), change}
}

// again has it stand again.
func (c *contender) again() { c.bid = c.c.campaign() }

// ranks is contend, by the rank alone.
func (a *arena) ranks(rank ...int64) *contender {
	return a.contend(kit.Ranking{Rank: rank})
}

// line makes contenders that wait, one after the other, and returns them.
func (a *arena) line(ranks ...int64) (all []*contender) {
	for _, rank := range ranks {
		c := a.ranks(rank)
		c.waits()
		all = append(all, c)
	}
	return all
}

// succeed has each lead in this order, from t on, and nobody else, and returns the last term.
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

// designating returns an operator who designates, in a process of its own.
func (a *arena) designating() func(id string) {
	b := a.Service.Client(a.T).Backend
	return func(id string) {
		a.hist.note("%q is designated", id)
		a.Must("Designate", elector.Designate(a.within(), b, a.cfg.Strategy, a.path, elector.Designation{ID: id, By: "operator"}))
	}
}

// askedBy waits until the term is asked to go, by this one.
func (a *arena) askedBy(t *elector.Term, c *contender) {
	arrives(a, "the leader is asked to go", t.Asked())
	if r, _ := t.Request(); r.By != c.c.id {
		a.Failf("the leader is asked to go by %q, want %s: %+v", r.By, c.c.id, r)
	}
	a.holds(t)
	c.blocked()
}

func rankedBestLeads(a *arena) {
	viewer := a.view()
	leader := a.ranks(1)
	t := leader.wins()
	all := a.line(0, 5)
	worse := a.ranks(5, -3)
	worse.waits()
	equal := a.ranks(5, 0) // what is missing counts as 0
	equal.waits()
	last := a.ranks(3, 9)
	last.waits()
	order := []*contender{all[1], equal, worse, last, all[0]}
	a.inLine(viewer, append([]*contender{leader}, order...)...)
	a.succeed(t, order...)
}

func rankedChanges(a *arena) {
	viewer := a.view()
	leader := a.ranks(5)
	t := leader.wins()
	line := a.line(1, 2, 3)
	b, c, d := line[0], line[1], line[2]
	a.inLine(viewer, leader, d, c, b)
	b.change(9)
	a.inLine(viewer, leader, b, d, c)
	d.change(0)
	a.inLine(viewer, leader, b, c, d)
	c.change(0) // it has a new entry, and it came before the other
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
	leader := a.ranks(1)
	t := leader.wins()
	never := a.line(-1)[0]
	a.inLine(viewer, leader, never)
	a.resign(t)
	a.vacant(viewer)
	a.inLine(viewer, never)
	a.Settle()
	never.blocked()
	second := a.ranks(0)
	t = second.wins()
	line := a.line(5, 1)
	line[0].change(-2) // the other has waited for it
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
	with := func(rank int64) *contender {
		return a.contend(kit.Ranking{Rank: []int64{rank}, Quorum: 2})
	}
	first := with(1)
	first.waits()
	never := with(-1)
	never.waits()
	a.Settle()
	first.blocked()
	best := with(2)
	t := best.wins()
	first.blocked()
	third := with(0)
	third.waits()
	a.inLine(viewer, best, first, third, never)
	t = a.succeed(t, first)
	a.resign(t)
	a.vacant(viewer)
	third.waits()
	a.Settle()
	third.blocked() // alone
	first.again()
	t = first.wins()
	third.cancel()
	arrives(a, "Campaign returns", third.done)
	a.inLine(viewer, first, never)
	a.stays(t)
	a.resign(t)
	first.again()
	first.waits()
	a.Settle()
	first.blocked()
	never.change(0)
	t = first.wins()
	a.succeed(t)
}

func rankedSticky(a *arena) {
	leader := a.ranks(1)
	t := leader.wins()
	line := a.line(9, 1)
	a.unasked(t)
	a.holds(t)
	line[0].blocked()
	leader.change(0)
	a.inLine(a.view(), leader, line[0], line[1])
	a.unasked(t)
	a.succeed(t, line...)
}

func rankedPreempts(a *arena) {
	with := func(a *arena, holdOff time.Duration, rank int64) *contender {
		return a.contend(kit.Ranking{Rank: []int64{rank}, Preempt: true, HoldOff: holdOff})
	}
	a.in("at once", func(a *arena) {
		leader := with(a, 0, 1)
		t := leader.wins()
		equal, worse := with(a, 0, 1), with(a, 0, 0)
		equal.waits()
		worse.waits()
		a.unasked(t)
		best := with(a, 0, 2)
		a.askedBy(t, best)
		t = best.succeeds(t)
		leader.again()
		leader.waits()
		a.unasked(t)
		best.change(0) // now those who wait are better, and the equal one came first
		a.askedBy(t, equal)
		t = equal.succeeds(t)
		best.again()
		best.waits()
		a.unasked(t)
	})
	a.in("after a while", func(a *arena) {
		holdOff := a.Service.TTL / 4
		leader := with(a, holdOff, 1)
		t := leader.wins()
		other := with(a, holdOff, 0)
		other.waits()
		began := time.Now()
		other.change(2)
		a.askedBy(t, other)
		if took := time.Since(began); took < holdOff {
			a.Failf("the leader was asked to go after %v, and the hold-off is %v", took, holdOff)
		}
	})
	a.in("not for long enough", func(a *arena) {
		const holdOff = 1000 * time.Hour
		leader := with(a, holdOff, 1)
		t := leader.wins()
		other := with(a, holdOff, 2)
		other.waits()
		a.unasked(t)
		other.change(0)
		a.inLine(a.view(), leader, other)
		a.unasked(t)
	})
}

func rankedDesignated(a *arena) {
	a.in("who waits", func(a *arena) {
		viewer, designate := a.view(), a.designating()
		leader := a.ranks(5)
		t := leader.wins()
		line := a.line(9, 1, 3)
		best, worst, middle := line[0], line[1], line[2]
		designate(worst.c.id)
		a.inLine(viewer, leader, worst, best, middle)
		a.unasked(t)
		t = a.succeed(t, worst)
		designate("")
		a.inLine(viewer, worst, best, middle)
		t = a.succeed(t, best)
		never := a.line(-1)[0]
		designate(never.c.id)
		a.inLine(viewer, best, middle, never)
		t = a.succeed(t, middle)
		never.blocked()
		last := a.line(7)[0]
		never.change(0)
		a.inLine(viewer, middle, never, last)
		a.succeed(t, never, last)
	})
	a.in("who does not stand yet", func(a *arena) {
		designate := a.designating()
		leader := a.ranks(5)
		t := leader.wins()
		id := a.id(99)
		designate(id)
		best := a.line(9)[0]
		late := a.contend(kit.Ranking{}, func(cfg *elector.Config) { cfg.ID = id })
		late.waits()
		a.succeed(t, late, best)
	})
	a.in("several", func(a *arena) {
		designate := a.designating()
		leader := a.ranks(5)
		t := leader.wins()
		best := a.line(9)[0]
		id := a.id(99)
		var same []*contender
		for rank := range int64(3) {
			c := a.contend(kit.Ranking{Rank: []int64{rank}}, func(cfg *elector.Config) { cfg.ID = id })
			c.waits()
			same = append(same, c)
		}
		designate(id)
		a.succeed(t, same[2], same[1], same[0], best)
	})
	a.in("the best does not know of it", func(a *arena) {
		designate := a.designating()
		t := a.ranks(5).wins()
		line := a.line(9, 1)
		takes := line[0].c.stall(commits(backend.OpCreateEphemeral))
		a.resign(t)
		takes.reached("the best takes the seat")
		designate(line[1].c.id)
		takes.release()
		a.succeed(line[1].wins(), line[0])
	})
	a.in("it does not know that it is not any more", func(a *arena) {
		designate := a.designating()
		t := a.ranks(5).wins()
		line := a.line(9, 1)
		designate(line[1].c.id)
		takes := line[1].c.stall(commits(backend.OpCreateEphemeral))
		a.resign(t)
		takes.reached("the designated one takes the seat")
		designate("")
		takes.release()
		a.succeed(line[0].wins(), line[1])
	})
}

func rankedUnseated(a *arena) {
	designate := a.designating()
	with := func(rank int64) *contender {
		return a.contend(kit.Ranking{Rank: []int64{rank}, Preempt: true})
	}
	leader := with(5)
	t := leader.wins()
	worse := with(1)
	worse.waits()
	a.unasked(t)
	designate(worse.c.id)
	a.askedBy(t, worse)
	t = worse.succeeds(t)
	leader.again()
	leader.waits()
	a.unasked(t)
	designate("")
	a.askedBy(t, leader)
}

func rankedNewcomer(a *arena) {
	t := a.ranks(5).wins()
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
	if now := woken(); now != before {
		a.Failf("those who wait were woken %d times by one that came", now-before)
	}
	t = a.succeed(t, newcomers[0])
	line[0].waits()
	next := a.line(3, 4)
	a.succeed(t, next[1], next[0], line[0], line[1])
}

func rankedListed(a *arena) {
	leader := a.ranks(5)
	t := leader.wins()
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
		listed := make(chan []string, 1)
		go func() {
			var ids []string
			all, err := viewer.e.Candidates(a.within())
			if err != nil {
				ids = []string{err.Error()}
			}
			for _, c := range all {
				ids = append(ids, c.ID)
			}
			listed <- ids
		}()
		reads.reached("Candidates reads the entry of the one that waits")
		meanwhile.does()
		reads.release()
		if ids := arrives(a, "Candidates answers", listed); !slices.Contains(ids, other.c.id) {
			a.Failf("Candidates lists %q while %s: %s has stood all the time", ids, meanwhile.what, other.c.id)
		}
	}
}

func rankedWakesFew(a *arena) {
	const waiting = 6
	_, t := a.lead()
	bids := a.queues(waiting)
	for i, winner := range bids {
		a.Settle()
		before, since := counts(bids)
		t = winner.succeeds(t)
		behind := bids[i+1:]
		if len(behind) > 0 {
			a.Until(behind[0].c.id+" finds that it is next, and waits on", func() bool {
				return since(behind[0]).WakeUps > 0 && since(behind[0]).Waits > 0
			})
		}
		a.Settle()
		for k, b := range behind {
			now := since(b)
			now.Sent, now.Received, now.Watches = 0, 0, 0
			want := meter.Counts{}
			if k == 0 { // it reads all that have come after it, to know that it is the best
				want = meter.Counts{WakeUps: 1, Waits: 1, Lists: 1, Gets: 2 + len(behind) - 1}
			}
			if now != want {
				a.Failf("%s, number %d behind the new leader, made calls %+v, want %+v", b.c.id, k+1, now, want)
			}
		}
		won := winner.atWin.Sub(before[winner])
		won.Sent, won.Received, won.Watches = 0, 0, 0
		want := meter.Counts{WakeUps: 1, Lists: 1, Commits: 1}
		if i == 0 { // nobody has told it who came after it
			want.Gets += len(behind)
		}
		if won != want {
			a.Failf("%s was woken to lead, and made calls %+v before it did, want %+v", winner.c.id, won, want)
		}
	}
}
