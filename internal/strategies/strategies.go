// Package strategies makes configurations for the suite of elections from the strategies in
// strategy/catalog. The suites, their mutants and the campaigns of package chaos hold each strategy to its
// traits, and to nothing else.
package strategies

import (
	"context"
	"errors"
	"strconv"

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
	cfg := conformance.ElectionConfig{
		Strategy: item.Strategy, Ordered: item.Ordered, Ranked: item.Ranked, Herd: item.Herd, LooksFirst: item.LooksFirst, Dense: item.Dense, StepsAside: item.StepsAside,
		Entries: layouts[item.Strategy.Name()],
	}
	if item.Ranked {
		cfg.Rank = ranking
	}
	if item.Numeric {
		cfg.ID = strconv.Itoa
	}
	return cfg
}

// ranking returns the only Ranked strategy with a candidate's ranking.
func ranking(r conformance.Ranking) (s strategy.Strategy, change func(...int64)) {
	rank := ranked.NewRank(r.Rank...)
	return ranked.Strategy{Rank: rank, Quorum: r.Quorum, Preempt: r.Preempt, HoldOff: r.HoldOff}, rank.Set
}

// layouts read the candidates' entries of each strategy that has a layout of its own. TestElection fails
// for a missing one.
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
