package conformance

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector"
)

var recipeRules = []electionRule{
	{
		name: "recipe/one-wake-up",
		text: "A handover wakes the successor, tells one other that it is next, disturbs nobody else, and costs no listing and no read.",
		need: []string{needCalm, needOrdered, string(AbilityBackend), string(AbilityLayout), string(AbilityStages)},
		run:  recipeOneWakeUp,
	},
	{
		name: "recipe/withdrawal-wakes-one",
		text: "The withdrawal of a waiting candidate wakes only the one behind it.",
		need: []string{needCalm, needOrdered, string(AbilityBackend)},
		run:  recipeWithdrawal,
	},
	{
		name: "recipe/herd",
		text: "A handover wakes all who wait, and one of them leads.",
		need: []string{needHerd, string(AbilityBackend)},
		run:  recipeHerd,
	},
	{
		name: "recipe/two-watches",
		text: "A candidate that waits has at most two live watches: one on its own entry and one on its predecessor.",
		need: []string{"Watches"},
		// All watches of the service are counted.
		alone: true,
		run:   recipeTwoWatches,
	},
	{
		name: "recipe/stages",
		text: "The stages of a candidacy are reported in the recipe's order, each begun and completed.",
		need: []string{string(AbilityStages)},
		run:  recipeStages,
	},
}

func recipeOneWakeUp(a *arena) {
	const waiting = 6
	first, t := a.lead()
	// Those who enrol behind a leader that is marked already need no telling.
	a.until("the leader has announced itself", func() bool { return a.get(a.entries()[0].Key).Version > 1 })
	var bids []*bid
	for range waiting {
		_, b := a.queue()
		bids = append(bids, b)
	}
	before := map[*bid]counts{}
	for i := range bids {
		a.settle()
		for _, b := range bids {
			before[b] = b.c.tap.seen()
		}
		a.resign(t)
		winner := bids[i]
		t = winner.wins()
		if i+1 < len(bids) {
			next := bids[i+1]
			a.until(next.c.id+" is told that it is next", func() bool {
				return next.c.tap.seen().awaits > before[next].awaits
			})
		}
		a.settle()
		for k, b := range bids[i+1:] {
			now := b.c.tap.seen()
			want := before[b]
			if k == 0 {
				want.awaits++
			}
			if now != want {
				a.failf("%s, number %d behind the new leader, made calls %+v, want %+v", b.c.id, k+1, now, want)
			}
		}
		now := winner.c.tap.seen()
		// A leader announces itself, by one commit, which its own watch reports.
		if now.lists != before[winner].lists || now.reads != before[winner].reads || now.commits != before[winner].commits+1 {
			a.failf("%s was woken to lead: calls were %+v and are %+v", winner.c.id, before[winner], now)
		}
		if n := winner.atWin.awaits - before[winner].awaits; n != 1 {
			a.failf("%s was woken %d times before it was elected", winner.c.id, n)
		}
	}
	if n := first.tap.seen().lists; n != 0 {
		a.failf("the first leader listed the directory %d times", n)
	}
}

func recipeWithdrawal(a *arena) {
	_, t := a.lead()
	var bids []*bid
	for range 6 {
		_, b := a.queue()
		bids = append(bids, b)
	}
	a.settle()
	before := make([]int, len(bids))
	for i, b := range bids {
		before[i] = b.c.tap.seen().awaits
	}
	const gone = 2
	bids[gone].cancel()
	arrives(a, "Campaign returns", bids[gone].done)
	next := bids[gone+1]
	a.until(next.c.id+" sees that its predecessor is gone", func() bool { return next.c.tap.seen().awaits == before[gone+1]+1 })
	next.waits()
	a.settle()
	for i, b := range bids {
		want := before[i]
		if i == gone+1 {
			want++
		}
		if got := b.c.tap.seen().awaits; i != gone && got != want {
			a.failf("number %d of those who wait was woken %d times by the withdrawal of number %d", i+1, got-before[i], gone+1)
		}
	}
	a.holds(t)
}

func recipeHerd(a *arena) {
	_, t := a.lead()
	var bids []*bid
	for range 5 {
		_, b := a.queue()
		bids = append(bids, b)
	}
	for len(bids) > 1 {
		a.settle()
		before := map[*bid]int{}
		for _, b := range bids {
			before[b] = b.c.tap.seen().awaits
		}
		a.resign(t)
		t = anyWins(a, &bids)
		a.until("all who wait were woken", func() bool {
			return !slices.ContainsFunc(bids, func(b *bid) bool { return b.c.tap.seen().awaits <= before[b] })
		})
		for _, b := range bids {
			b.waits()
		}
		a.holds(t)
	}
}

func recipeTwoWatches(a *arena) {
	a.settle()
	before := a.watches()
	_, t := a.lead()
	a.settle()
	last := a.watches()
	var rest []*bid
	for i := range 6 {
		_, b := a.queue()
		a.settle()
		now := a.watches()
		if now-last > 2 {
			a.failf("candidate %d brought %d watches", i+2, now-last)
		}
		last = now
		rest = append(rest, b)
	}
	for len(rest) > 0 {
		a.resign(t)
		t = anyWins(a, &rest)
		a.settle()
		if now := a.watches() - before; now > 2*len(rest)+1 {
			a.failf("%d watches of a leader and %d who wait", now, len(rest))
		}
	}
}

func (a *arena) watches() int {
	a.t.Helper()
	n, err := a.svc.Watches()
	a.must("the number of watches", err)
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
		a.t.Helper()
		var words []string
		for _, s := range want {
			words = append(words, fmt.Sprintf("%v false", s), fmt.Sprintf("%v true", s))
		}
		if got := stages(b); !slices.Equal(got, words) {
			a.failf("%s reported stages %q, want %q", b.c.id, got, words)
		}
	}
	const start, offer, determine, ready, elected, stop = elector.StageStart, elector.StageOffer,
		elector.StageDetermine, elector.StageReady, elector.StageElected, elector.StageStop

	c := a.stand()
	first := c.campaign()
	t := first.wins()
	_, b := a.queue()
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
		a.until("the second was told or looked", func() bool { return len(stages(b)) >= 12 })
		got := stages(b)
		// Where the leader had not announced itself yet, it has to look again.
		got = slices.Compact(got)
		want := []string{"start false", "start true", "offer false", "offer true", "determine false", "determine true",
			"ready false", "ready true", "elected false", "elected true", "stop false", "stop true"}
		if !slices.Equal(got, want) {
			a.failf("%s reported stages %q, want %q", b.c.id, got, want)
		}
	case a.cfg.LooksFirst:
		expect(b, start, determine, ready, offer, elected, stop)
	default:
		expect(b, start, offer, ready, offer, elected, stop)
	}
}
