package electionrules

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/meter"
)

var recipeRules = []rule{
	promise("recipe/one-wake-up", recipeOneWakeUp, needs{needCalm, needOrdered, needInLine, needBackend, needLayout, needStages},
		"A handover wakes the successor, tells one other candidate that it is next, disturbs nobody else, and costs no list and no read."),
	promise("recipe/withdrawal-wakes-one", recipeWithdrawal, needs{needCalm, needOrdered, needBackend},
		"The withdrawal of a waiting candidate wakes only the one behind it."),
	promise("recipe/herd", recipeHerd, needs{needHerd, needBackend},
		"A handover wakes all waiting candidates, each once, and one of them leads."),
	promise("recipe/joining-wakes-nobody", recipeJoining, needs{needUnseen, needBackend},
		"A candidate that joins wakes no waiting candidate."),
	promise("recipe/observing", recipeObserving, needs{needOrdered, needBackend},
		"An observer lists the directory once for many handovers, and not for the values that leaders publish."),
	promise("recipe/two-watches", recipeTwoWatches, needs{"Watches"},
		"A waiting candidate has at most two live watches: one on its own entry and one on its predecessor, or one on the directory. With ranks, the best waiting candidate has one more."),
	promise("recipe/stages", recipeStages, needs{needStages},
		"The stages of a candidacy are reported in the recipe's order, and each is reported as begun and as completed."),
}

func recipeOneWakeUp(a *arena) {
	first, t := a.lead()
	a.announced()
	// The next one's watch has reported the leader's mark, and is set again.
	next := func(int) meter.Counts { return meter.Counts{WakeUps: 1, Waits: 1, Watches: 1} }
	a.costs(t, a.queues(6), next, func(_ int, winner *bid, won, until meter.Counts) {
		// A leader announces itself by one commit, which its own watch reports.
		a.FailIf(won.Lists+won.Gets+won.Predecessors > 0 || won.Commits != 1, "%s was woken to lead, and made the calls %+v", winner.c.id, won)
		a.FailIf(until.WakeUps != 1, "%s was woken %d times before it was elected", winner.c.id, until.WakeUps)
	})
	n := first.tap.Counts().Lists
	a.FailIf(n != 0, "the first leader listed the directory %d times", n)
}

// costs makes each waiting candidate lead in its turn. next returns the calls that the next one makes; the
// others make none. won gets the calls of new leader i: all, and those until it had won.
func (a *arena) costs(t *elector.Term, bids []*bid, next func(behind int) meter.Counts, won func(i int, winner *bid, all, until meter.Counts)) {
	for i, winner := range bids {
		a.Settle()
		before, since := counts(bids)
		t = winner.succeeds(t)
		behind := bids[i+1:]
		if len(behind) > 0 {
			a.Until(behind[0].c.id+" knows that it is next, and still waits", func() bool {
				return since(behind[0]).WakeUps > 0 && since(behind[0]).Waits > 0
			})
		}
		a.Until("the leader has written", func() bool { return since(winner).Commits > 0 })
		a.Settle()
		for k, b := range behind {
			now, want := since(b), meter.Counts{}
			if k == 0 {
				want = next(len(behind))
			}
			now.Sent, now.Received = 0, 0
			if a.cfg.Ranked {
				now.Watches = 0 // as many as it needs to know who is better
			}
			a.FailIf(now != want, "%s, number %d behind the new leader, made calls %+v, want %+v", b.c.id, k+1, now, want)
		}
		won(i, winner, since(winner), winner.atWin.Sub(before[winner]))
	}
}

// announced waits until the leader has marked its entry, unless it leads by a seat. A candidate that enrols
// behind a marked entry needs no notice.
func (a *arena) announced() {
	a.Until("the leader has announced itself", func() bool { return a.cfg.Seat || a.seat().Version > 1 })
}

// counts returns the calls of each so far, and a function for the calls since then.
func counts(bids []*bid) (before map[*bid]meter.Counts, since func(*bid) meter.Counts) {
	before = make(map[*bid]meter.Counts)
	for _, b := range bids {
		before[b] = b.c.tap.Counts()
	}
	return before, func(b *bid) meter.Counts { return b.c.tap.Counts().Sub(before[b]) }
}

// wakeUps returns how often each has been woken.
func wakeUps(bids []*bid) (counts []int) {
	for _, b := range bids {
		counts = append(counts, b.c.tap.Counts().WakeUps)
	}
	return counts
}

func recipeWithdrawal(a *arena) {
	_, t := a.lead()
	a.announced()
	bids := a.queues(6)
	a.Settle()
	before := wakeUps(bids)
	const gone = 2
	bids[gone].withdraws()
	next := bids[gone+1]
	a.Until(next.c.id+" sees that its predecessor is gone", func() bool { return next.c.tap.Counts().WakeUps == before[gone+1]+1 })
	next.waits()
	a.Settle()
	before[gone+1]++
	for i, n := range wakeUps(bids) {
		a.FailIf(i != gone && n != before[i],
			"waiting candidate %d was woken %d times too often by the withdrawal of candidate %d", i+1, n-before[i], gone+1)
	}
	a.holds(t)
}

func recipeHerd(a *arena) {
	_, t := a.lead()
	bids := a.queues(5)
	most := map[*bid]int{}
	for i, b := range bids {
		if a.cfg.Ordered { // it watches the directory, and others have come after it
			most[b] = len(bids) - 1 - i
		}
		a.Until(b.c.id+" waits for a change", b.c.tap.waiting)
	}
	for len(bids) > 1 {
		a.Settle()
		_, since := counts(bids)
		for _, b := range bids {
			most[b]++
		}
		t = a.passOn(t, &bids)
		for _, b := range bids {
			a.Until(b.c.id+" is woken, and waits again", func() bool {
				now := since(b)
				return now.WakeUps > 0 && now.Waits > 0 && b.c.tap.waiting()
			})
		}
		a.Settle()
		for _, b := range bids {
			// Several changes may share one notice.
			n := b.c.tap.Counts().WakeUps
			a.FailIf(n > most[b], "%s was woken %d times, by %d changes", b.c.id, n, most[b])
			b.waits()
		}
		a.holds(t)
	}
}

func recipeJoining(a *arena) {
	_, t := a.lead()
	a.announced()
	bids := a.queues(6)
	a.Settle()
	for i, n := range wakeUps(bids) {
		a.FailIf(n > 0, "waiting candidate %d was woken %d times while %d others came after it", i+1, n, len(bids)-1-i)
	}
	a.holds(t)
}

func recipeObserving(a *arena) {
	c, t := a.lead()
	bids := a.queues(6)
	viewer := a.stand()
	o := a.observe(viewer)
	for _, b := range bids {
		o.leads(c, t, "value of "+c.id, true)
		a.proclaim(t, "new")
		o.leads(c, t, "new", true)
		c, t = b.c, b.succeeds(t)
	}
	o.leads(c, t, "value of "+c.id, true)
	n := viewer.tap.Counts().Lists
	a.FailIf(n > 1, "an observer of %d terms, with a value published in each, listed the directory %d times", len(bids), n)
}

func recipeTwoWatches(a *arena) {
	a.Settle()
	before := a.watches()
	most, led := 2, 1
	if a.cfg.Ordered && a.cfg.Herd {
		most, led = 1, 2 // on the directory, even after it has shown the leader that it leads
	}
	was := 0 // how many have been the best of the waiting candidates
	// Candidates that are woken remove one watch and set another.
	few := func(waiting int) {
		a.Settle()
		now := 0
		limit := most*waiting + led
		if a.cfg.Ranked && waiting > 0 {
			limit++ // the best of the waiting candidates also watches the record
		}
		if a.cfg.Ranked && !a.Service.Virtual {
			limit += was // ZooKeeper removes no watch: it stays until the record changes
		}
		a.Until(fmt.Sprintf("a leader and %d waiting candidates have %d watches at most", waiting, limit), func() bool {
			now = a.watches() - before
			return now <= limit
		})
		a.hist.note("%d watches of a leader and %d waiting candidates", now, waiting)
	}
	others := 6
	if !a.Service.Virtual {
		others = 2 // a client may keep an unused watch until the session's timeout has passed
	}
	_, t := a.lead(a.brief)
	few(0)
	var rest []*bid
	for range others {
		_, b := a.queue(a.brief)
		rest = append(rest, b)
		few(len(rest))
	}
	for len(rest) > 0 {
		t = a.passOn(t, &rest)
		was++
		few(len(rest))
	}
}

func (a *arena) watches() int {
	n, err := a.Service.Watches()
	a.Must("the number of watches", err)
	return n
}

func recipeStages(a *arena) {
	events := func(b *bid) (all []elector.StageEvent) {
		b.c.mu.Lock()
		defer b.c.mu.Unlock()
		for _, r := range b.c.log[b.log:] {
			if r.what == isStage {
				all = append(all, r.stage)
			}
		}
		return all
	}
	const start, offer, determine, ready, elected, stop = elector.StageStart, elector.StageOffer,
		elector.StageDetermine, elector.StageReady, elector.StageElected, elector.StageStop

	alone := []elector.Stage{start, offer, elected, stop}
	behind := []elector.Stage{start, offer, ready, offer, elected, stop}
	switch {
	case a.cfg.Ranked: // it looks up who stands when the seat is vacant
		alone = []elector.Stage{start, offer, determine, elected, stop}
		behind = []elector.Stage{start, offer, determine, ready, determine, elected, stop}
	case a.cfg.Ordered:
		alone = []elector.Stage{start, offer, determine, elected, stop}
		behind = []elector.Stage{start, offer, determine, ready, elected, stop}
	case a.cfg.Lists: // the recipe is not known: any stages may come in between
		alone, behind = nil, nil
	case a.cfg.LooksFirst:
		alone = []elector.Stage{start, determine, offer, elected, stop}
		behind = []elector.Stage{start, determine, ready, offer, elected, stop}
	}
	expect := func(b *bid, want []elector.Stage) {
		a.Until(b.c.id+" reports its last stage", func() bool { return slices.ContainsFunc(events(b), completed(stop)) })
		var got []elector.Stage
		for i, e := range events(b) {
			if i%2 == 0 {
				got = append(got, e.Stage)
			}
			a.FailIf(e.Completed != (i%2 == 1) || e.Stage != got[i/2], "%s reported stages %+v: one begins before another is completed", b.c.id, events(b))
		}
		n := len(got)
		ends := n > 2 && slices.Equal([]elector.Stage{got[0], got[n-2], got[n-1]}, []elector.Stage{start, elected, stop})
		a.FailIf(!ends || want != nil && !slices.Equal(got, want), "%s reported stages %v, want %v", b.c.id, got, want)
	}
	c := a.stand()
	first := c.campaign()
	t := first.wins()
	next := a.stand()
	a.catchesUp(next) // otherwise it may see the seat as vacant
	b := next.enters()
	if a.cfg.Ordered && !a.cfg.Herd {
		a.announced() // otherwise the second must look when the first has gone
	}
	a.resign(t)
	expect(first, alone)
	a.resign(b.wins())
	expect(b, behind)
}
