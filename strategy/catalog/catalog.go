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
	strategy.Traits
}

// All returns every strategy, always in the same order. The caller may change the slice.
func All() []Item {
	return []Item{
		{fair.Strategy{}, strategy.Traits{Ordered: true, Lists: true, StepsAside: true}},
		{unfair.Strategy{}, strategy.Traits{Seat: true, Herd: true}},
		{kafka.Strategy{}, strategy.Traits{Seat: true, Herd: true, LooksFirst: true, Dense: true, Numeric: true}},
		{parentwatch.Strategy{}, strategy.Traits{Ordered: true, Lists: true, Herd: true}},
		{ranked.Strategy{}, strategy.Traits{Ordered: true, Lists: true, Seat: true, Ranked: true}},
	}
}

// Variants returns the strategies of All with a setting that changes their names, and traits: candidates with
// and without it cannot stand in one election.
func Variants() []Item {
	return []Item{
		{ranked.Strategy{ByID: true}, strategy.Traits{Lists: true, Seat: true, Ranked: true}},
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

// Named returns the strategy or variant with this name, or false if there is none.
func Named(name string) (Item, bool) {
	for _, item := range slices.Concat(All(), Variants()) {
		if item.Strategy.Name() == name {
			return item, true
		}
	}
	return Item{}, false
}
