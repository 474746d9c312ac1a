// Package strategies is what each strategy of the library promises. The suites, their
// mutants and the campaigns of package chaos hold each to that, and to nothing else.
package strategies

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/parentwatch"
	"github.com/elector-go/elector/strategy/unfair"
)

// All returns every strategy, with what it promises. Callers may change what they get.
func All() []conformance.ElectionConfig {
	return []conformance.ElectionConfig{
		{Strategy: fair.New(), Ordered: true},
		{Strategy: unfair.New(), Herd: true},
		{Strategy: kafka.New(), Herd: true, LooksFirst: true, Dense: true, ID: strconv.Itoa, Entries: controller},
		{Strategy: parentwatch.New(), Ordered: true, Herd: true},
	}
}

// Named returns the one of this name, and false if there is none.
func Named(name string) (conformance.ElectionConfig, bool) {
	all := All()
	i := slices.IndexFunc(all, func(c conformance.ElectionConfig) bool { return c.Strategy.Name() == name })
	if i < 0 {
		return conformance.ElectionConfig{}, false
	}
	return all[i], true
}

// controller reads the only entry that candidates have in Kafka's layout.
func controller(ctx context.Context, s *backend.Session, election string) ([]backend.Entry, error) {
	e, err := s.Get(ctx, election+"/controller")
	if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
		return nil, nil
	}
	return []backend.Entry{e}, err
}
