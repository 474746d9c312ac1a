// Package catalog lists the strategies that come with this library, each with its traits.
// It is for whoever takes all of them or one by its name: a program with a -strategy flag,
// a test that tries your wrapper with each.
//
// A program that knows its strategy imports that alone, such as strategy/fair.
package catalog

import (
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/parentwatch"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// An Item is a strategy, and what it promises beside what all do.
type Item struct {
	// Strategy serves any number of electors, as all do.
	Strategy elector.Strategy
	Traits
}

// Traits are what tells strategies apart. The first five are the fields of
// conformance.ElectionConfig that bear their names, which says them at length.
type Traits struct {
	// Ordered: candidates lead in the order of their arrival.
	Ordered bool
	// Herd: a change of leader wakes every candidate. One that is Ordered, too, has them
	// watch the directory, so that whoever comes or goes wakes them all.
	Herd bool
	// LooksFirst: a candidate looks who leads before it makes an offer.
	LooksFirst bool
	// Dense: tokens are 1, 2, 3 …
	Dense bool
	// StepsAside: those between the leader and the candidate that it transfers leadership to step
	// aside, before the leader goes.
	StepsAside bool
	// Lists: Candidates lists those who wait, too, and not only the leader.
	Lists bool
	// Ranked: candidates of a higher rank lead before others. Those of equal rank are Ordered.
	Ranked bool
	// Numeric: an ID is a decimal number from 0 to 2147483647. Any other is refused.
	Numeric bool
}

// All returns every strategy, always in the same order. Callers may change the slice.
func All() []Item {
	return []Item{
		{fair.New(), Traits{Ordered: true, StepsAside: true, Lists: true}},
		{unfair.New(), Traits{Herd: true}},
		{kafka.New(), Traits{Herd: true, LooksFirst: true, Dense: true, Numeric: true}},
		{parentwatch.New(), Traits{Ordered: true, Herd: true, Lists: true}},
		{ranked.New(nil), Traits{Ordered: true, Lists: true, Ranked: true}},
	}
}

// Names returns the names of all, in the order of All.
func Names() []string {
	var names []string
	for _, item := range All() {
		names = append(names, item.Strategy.Name())
	}
	return names
}

// Named returns the one of this name, and false if there is none.
func Named(name string) (Item, bool) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return Item{}, false
	}
	return All()[i], true
}
