// Package catalog lists the strategies that come with this library, with their traits. It is for programs
// that use all of them, or choose one by name: a program with a -strategy flag, or a test that tries your
// wrapper with each.
//
// A program that knows its strategy imports only that one, such as strategy/fair.
package catalog

import (
	"slices"

	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/parentwatch"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// An Item is a strategy and the promises it makes beyond those of all strategies.
type Item struct {
	// Strategy serves any number of electors, as every strategy does.
	Strategy strategy.Strategy
	Traits
}

// Traits tell strategies apart. The first five have the names of fields of conformance.ElectionConfig, which
// describes them in detail.
type Traits struct {
	// Ordered: candidates lead in the order of their arrival.
	Ordered bool
	// Herd: a change of leader wakes every candidate. If Ordered is set, too, candidates watch the directory,
	// and every candidate that comes or goes wakes them all.
	Herd bool
	// LooksFirst: a candidate reads who leads before it makes an offer.
	LooksFirst bool
	// Dense: tokens are 1, 2, 3 …
	Dense bool
	// StepsAside: in a transfer of leadership, the candidates between the leader and the heir step aside
	// before the leader goes.
	StepsAside bool
	// Lists: Candidates lists the candidates that wait, too, not only the leader.
	Lists bool
	// Ranked: candidates of a higher rank lead before others. Candidates of equal rank are Ordered.
	Ranked bool
	// Numeric: an ID is a decimal number from 0 to 2147483647. Any other is refused.
	Numeric bool
}

// All returns every strategy, always in the same order. The caller may change the slice.
func All() []Item {
	return []Item{
		{fair.Strategy{}, Traits{Ordered: true, StepsAside: true, Lists: true}},
		{unfair.Strategy{}, Traits{Herd: true}},
		{kafka.Strategy{}, Traits{Herd: true, LooksFirst: true, Dense: true, Numeric: true}},
		{parentwatch.Strategy{}, Traits{Ordered: true, Herd: true, Lists: true}},
		{ranked.Strategy{}, Traits{Ordered: true, Lists: true, Ranked: true}},
	}
}

// Names returns the names of all strategies, in the order of All.
func Names() []string {
	var names []string
	for _, item := range All() {
		names = append(names, item.Strategy.Name())
	}
	return names
}

// Named returns the strategy with this name, or false if there is none.
func Named(name string) (Item, bool) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return Item{}, false
	}
	return All()[i], true
}
