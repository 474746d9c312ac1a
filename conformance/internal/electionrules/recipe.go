package electionrules

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/meter"
)

var recipeRules = []rule{
	{
		Name: "recipe/one-wake-up",
		Text: "A handover wakes the successor, tells one other that it is next, disturbs nobody else, and costs no listing and no read.",
		Need: []string{needCalm, needOrdered, needInLine, needBackend, needLayout, needStages},
		Run:  recipeOneWakeUp,
	}, {
		Name: "recipe/withdrawal-wakes-one",
		Text: "The withdrawal of a waiting candidate wakes only the one behind it.",
		Need: []string{needCalm, needOrdered, needBackend},
		Run:  recipeWithdrawal,
	}, {
		Name: "recipe/herd",
		Text: "A handover wakes all who wait, each once, and one of them leads.",
		Need: []string{needHerd, needBackend},
		Run:  recipeHerd,
	}, {
		Name: "recipe/joining-wakes-nobody",
		Text: "A candidate that joins wakes nobody who waits.",
		Need: []string{needUnseen, needBackend},
		Run:  recipeJoining,
	}, {
		Name: "recipe/observing",
		Text: "Who observes lists the directory once for many handovers, and not for what a leader publishes.",
		Need: []string{needOrdered, needBackend},
		Run:  recipeObserving,
	}, {
		Name: "recipe/two-watches",
		Text: "A candidate that waits has at most two live watches: one on its own entry and one on its predecessor, or one on the directory. With ranks the best has one more.",
		Need: []string{"Watches"},
		Run:  recipeTwoWatches,
	}, {
		Name: "recipe/stages",
		Text: "The stages of a candidacy are reported in the recipe's order, each begun and completed.",
		Need: []string{needStages},
		Run:  recipeStages,
	},
}

func recipeOneWakeUp(a *arena) {
	const waiting = 6
	first, t := a.lead()
	a.announced()
	bids := a.queues(waiting)
	for i := range bids {
		a.Settle()
		before, since := counts(bids)
		a.resign(t)
		winner := bids[i]
		t = winner.wins()
		if i+1 < len(bids) {
			next := bids[i+1]
			a.Until(next.c.id+" is told that it is next, and waits on", func() bool {
				return since(next).WakeUps > 0 && since(next).Waits > 0
			})
		}
		a.Until("the leader announces itself", func() bool { return since(winner).Commits > 0 })
		a.Settle()
		for k, b := range bids[i+1:] {
			now := since(b)
			now.Sent, now.Received = 0, 0
			want := meter.Counts{}
			if k == 0 { // the watch has told of the mark, and is set again
				want = meter.Counts{WakeUps: 1, Waits: 1, Watches: 1}
			}
			if now != want {
				a.Failf("%s, number %d behind the new leader, made calls %+v, want %+v", b.c.id, k+1, now, want)
			}
		}
		// A leader announces itself, by one commit, which its own watch reports.
		if now := since(winner); now.Lists+now.Gets+now.Predecessors > 0 || now.Commits != 1 {
			a.Failf("%s was woken to lead, and made calls %+v", winner.c.id, now)
		}
		if n := winner.atWin.WakeUps - before[winner].WakeUps; n != 1 {
			a.Failf("%s was woken %d times before it was elected", winner.c.id, n)
		}
	}
	if n := first.tap.Counts().Lists; n != 0 {
		a.Failf("the first leader listed the directory %d times", n)
	}
}

// announced waits until the leader has marked its entry. Those who enrol behind one that
// is marked already need no telling.
func (a *arena) announced() {
	a.Until("the leader has announced itself", func() bool { return a.seat().Version > 1 })
}

// counts are what each has done until now, and since then.
func counts(bids []*bid) (before map[*bid]meter.Counts, since func(*bid) meter.Counts) {
	before = make(map[*bid]meter.Counts)
	for _, b := range bids {
		before[b] = b.c.tap.Counts()
	}
	return before, func(b *bid) meter.Counts { return b.c.tap.Counts().Sub(before[b]) }
}

// wakeUps are how often each has been woken.
func wakeUps(bids []*bid) (counts []int) {
	for _, b := range bids {
		counts = append(counts, b.c.tap.Counts().WakeUps)
	}
	return counts
}

func recipeWithdrawal(a *arena) {
	_, t := a.lead()
	bids := a.queues(6)
	a.Settle()
	before := wakeUps(bids)
	const gone = 2
	bids[gone].cancel()
	arrives(a, "Campaign returns", bids[gone].done)
	next := bids[gone+1]
	a.Until(next.c.id+" sees that its predecessor is gone", func() bool { return next.c.tap.Counts().WakeUps == before[gone+1]+1 })
	next.waits()
	a.Settle()
	before[gone+1]++
	for i, n := range wakeUps(bids) {
		if i != gone && n != before[i] {
			a.Failf("number %d of those who wait was woken %d times too often by the withdrawal of number %d", i+1, n-before[i], gone+1)
		}
	}
	a.holds(t)
}

func recipeHerd(a *arena) {
	_, t := a.lead()
	bids := a.queues(5)
	most := map[*bid]int{}
	for i, b := range bids {
		if a.cfg.Ordered { // it watches the directory, where others have come after it
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
			// Notices of several changes may come as one.
			if n := b.c.tap.Counts().WakeUps; n > most[b] {
				a.Failf("%s was woken %d times, by %d changes", b.c.id, n, most[b])
			}
			b.waits()
		}
		a.holds(t)
	}
}

func recipeJoining(a *arena) {
	_, t := a.lead()
	if a.cfg.Ordered && !a.cfg.Ranked {
		a.announced()
	}
	bids := a.queues(6)
	a.Settle()
	for i, n := range wakeUps(bids) {
		if n > 0 {
			a.Failf("number %d of those who wait was woken %d times while %d came after it", i+1, n, len(bids)-1-i)
		}
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
	if n := viewer.tap.Counts().Lists; n > 1 {
		a.Failf("an observer of %d terms, with a value published in each, listed the directory %d times", len(bids), n)
	}
}

func recipeTwoWatches(a *arena) {
	a.Settle()
	before := a.watches()
	most, led := 2, 1
	if a.cfg.Ordered && a.cfg.Herd {
		most, led = 1, 2 // on the directory, also when it has told the leader that it leads
	}
	was := 0 // how many have been the best of those who wait, and are it no more
	// Those who are woken take one watch away and set another.
	few := func(waiting int) {
		a.Settle()
		now := 0
		limit := most*waiting + led
		if a.cfg.Ranked && waiting > 0 {
			limit++ // the best of those who wait watches the record, too
		}
		if a.cfg.Ranked && !a.Service.Virtual {
			limit += was // ZooKeeper takes no watch back: it stays until the record changes
		}
		a.Until(fmt.Sprintf("a leader and %d who wait have %d watches at most", waiting, limit), func() bool {
			now = a.watches() - before
			return now <= limit
		})
		a.hist.note("%d watches of a leader and %d who wait", now, waiting)
	}
	others := 6
	if !a.Service.Virtual {
		others = 2 // a client may keep a watch that nobody waits for until the session's timeout has passed
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
	stages := func(b *bid) []string {
		var out []string
		b.c.mu.Lock()
		defer b.c.mu.Unlock()
		for _, r := range b.c.log[b.log:] {
			if r.what == isStage {
				out = append(out, fmt.Sprintf("%v %v", r.stage.Stage, r.stage.Completed))
			}
		}
		return out
	}
	expect := func(b *bid, want ...elector.Stage) {
		var words []string
		for _, s := range want {
			words = append(words, fmt.Sprintf("%v false", s), fmt.Sprintf("%v true", s))
		}
		if got := stages(b); !slices.Equal(got, words) {
			a.Failf("%s reported stages %q, want %q", b.c.id, got, words)
		}
	}
	const start, offer, determine, ready, elected, stop = elector.StageStart, elector.StageOffer,
		elector.StageDetermine, elector.StageReady, elector.StageElected, elector.StageStop

	c := a.stand()
	first := c.campaign()
	t := first.wins()
	next := a.stand()
	a.catchesUp(next) // or it may take the seat for vacant
	b := next.enters()
	if a.cfg.Ordered && !a.cfg.Ranked && !a.cfg.Herd {
		a.announced() // or the second has to look when the first has gone
	}
	a.resign(t)
	switch {
	case a.cfg.Ordered:
		expect(first, start, offer, determine, elected, stop)
	case a.cfg.LooksFirst:
		expect(first, start, determine, offer, elected, stop)
	default:
		expect(first, start, offer, elected, stop)
	}
	t = b.wins()
	a.resign(t)
	switch {
	case a.cfg.Ordered:
		a.Until("the second has resigned", func() bool { return len(stages(b)) >= 12 })
		got := stages(b)
		want := []string{"start false", "start true", "offer false", "offer true", "determine false", "determine true",
			"ready false", "ready true", "elected false", "elected true", "stop false", "stop true"}
		if a.cfg.Ranked { // it looks who stands when the seat is vacant
			want = slices.Insert(want, slices.Index(want, "elected false"), "determine false", "determine true")
		}
		if !slices.Equal(got, want) {
			a.Failf("%s reported stages %q, want %q", b.c.id, got, want)
		}
	case a.cfg.LooksFirst:
		expect(b, start, determine, ready, offer, elected, stop)
	default:
		expect(b, start, offer, ready, offer, elected, stop)
	}
}
