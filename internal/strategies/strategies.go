// Package strategies makes configurations for the suite of elections from the strategies in
// strategy/catalog. The suites, their mutants and the campaigns of package chaos hold each strategy to its
// traits, and to nothing else.
package strategies

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/ranked"
)

// All returns every strategy with its promises. Callers may change the result.
func All() []conformance.ElectionConfig {
	var all []conformance.ElectionConfig
	for _, item := range catalog.All() {
		all = append(all, config(item))
	}
	return all
}

// Named returns the strategy of this name, and false if there is none.
func Named(name string) (conformance.ElectionConfig, bool) {
	item, ok := catalog.Named(name)
	if !ok {
		return conformance.ElectionConfig{}, false
	}
	return config(item), true
}

func config(item catalog.Item) conformance.ElectionConfig {
	name := item.Strategy.Name()
	return conformance.ElectionConfig{Strategy: item.Strategy, Traits: item.Traits, Rank: rankings[name], Entries: layouts[name]}
}

// rankings give a candidate of a strategy a rank of its own. A strategy without ranks needs none.
var rankings = map[string]func(conformance.Ranking) (s strategy.Strategy, change func(...int64)){
	"ranked": func(r conformance.Ranking) (strategy.Strategy, func(...int64)) {
		rank := ranked.NewRank(r.Rank...)
		return ranked.Strategy{Rank: rank, Quorum: r.Quorum, Preempt: r.Preempt, HoldOff: r.HoldOff}, rank.Set
	},
}

// layouts read the candidates' entries of a strategy that is an strategy.CustomLayout. TestElection fails for
// a missing one. A strategy with this library's layout needs none.
var layouts = map[string]func(context.Context, *backend.Session, string) ([]backend.Entry, error){
	"kafka": controller,
}

// controller reads the only entry that candidates have in Kafka's layout.
func controller(ctx context.Context, s *backend.Session, election string) ([]backend.Entry, error) {
	e, err := s.Get(ctx, election+"/controller")
	if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
		return nil, nil
	}
	return []backend.Entry{e}, err
}
