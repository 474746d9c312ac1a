package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/memtest"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

var memoryService = memtest.Service(3 * time.Second)

// strategies are those of an election, with what they promise.
var strategies = []conformance.ElectionConfig{
	{Strategy: fair.New(), Ordered: true},
	{Strategy: unfair.New(), Herd: true},
	{
		Strategy: kafka.New(), Herd: true, LooksFirst: true, Dense: true,
		ID: strconv.Itoa, Entries: controller,
	},
}

// controller reads the only entry that candidates have in Kafka's layout.
func controller(ctx context.Context, s backend.Session, election string) ([]backend.Entry, error) {
	e, err := s.Get(ctx, election+"/controller")
	if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
		return nil, nil
	}
	return []backend.Entry{e}, err
}

func TestElectionOnMemory(t *testing.T) {
	for _, cfg := range strategies {
		for name, newService := range map[string]func(testing.TB) *conformance.Service{
			"own sessions":    memoryService,
			"shared sessions": memtest.Shared(memoryService),
		} {
			t.Run(cfg.Strategy.Name()+", "+name, func(t *testing.T) {
				cfg := cfg
				cfg.Service = newService
				appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised[cfg.Strategy.Name()])
			})
		}
	}
}

// notPromised are the rules about what a strategy does not promise.
var notPromised = map[string][]string{
	"fair":   {"data/foreign-seat", "recipe/herd", "epoch/dense", "epoch/raised", "epoch/restart", "epoch/stalled-claim"},
	"unfair": append([]string{"epoch/dense", "epoch/raised", "epoch/restart", "epoch/stalled-claim"}, noOrder...),
	"kafka":  append([]string{"data/foreign-path", "data/mismatch"}, noOrder...),
}

// noOrder are the rules about an order of succession.
var noOrder = []string{"data/deleted-at-handover", "data/waiting-deleted", "recipe/one-wake-up", "recipe/withdrawal-wakes-one", "term/order"}

// oneServer are the rules about ensembles.
var oneServer = []string{"server/member-killed"}

// appliesAll checks that these rules were left out, and no other.
func appliesAll(t *testing.T, report conformance.Report, but ...[]string) {
	t.Helper()
	for _, r := range report.Results {
		listed := slices.Contains(slices.Concat(but...), r.Rule)
		switch {
		case r.Outcome == conformance.NotApplicable && !listed:
			t.Errorf("rule %s was not tried: %s", r.Rule, r.Reason)
		case r.Outcome != conformance.NotApplicable && listed:
			t.Errorf("rule %s was tried, and is listed as one that is not", r.Rule)
		}
	}
}

// An elector of another make has no hooks and a layout of its own. The rules that
// are left must do without.
func TestElectionOfAnotherMake(t *testing.T) {
	const why = "another make"
	for _, cfg := range strategies {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with Commit: %v", cfg.Strategy.Name(), commits), func(t *testing.T) {
				cfg := cfg
				cfg.Service = memoryService
				cfg.New = func(c *conformance.Client, own elector.Config) (elector.Elector, error) {
					e, err := elector.New(elector.Config{
						Backend: c.Backend, Strategy: own.Strategy, Election: own.Election,
						ID: own.ID, Value: own.Value, TTL: own.TTL,
					})
					if err != nil || commits {
						return e, err
					}
					return commitless{e}, nil
				}
				cfg.Why = map[string]string{}
				lacks := []conformance.Ability{
					conformance.AbilityHooks, conformance.AbilityStages, conformance.AbilityBackend,
					conformance.AbilityLayout, conformance.AbilityConfig, conformance.AbilitySuspend,
				}
				least := 40
				if !commits {
					lacks, least = append(lacks, conformance.AbilityCommit), 30
				}
				for _, l := range lacks {
					cfg.Why[string(l)] = why
				}
				report := conformance.TestElection(t, cfg)
				if n := report.Count(conformance.Passed); n < least {
					t.Errorf("only %d rules passed", n)
				}
			})
		}
	}
}

// commitless is an elector whose terms cannot commit.
type commitless struct{ elector.Elector }

func (e commitless) Campaign(ctx context.Context) (*elector.Term, error) {
	t, err := e.Elector.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	return elector.NewTerm(elector.TermConfig{
		Token: t.Token(), Context: t.Context(), Valid: t.Valid, Proclaim: t.Proclaim, Resign: t.Resign,
		Commit: func(context.Context, ...elector.Op) ([]backend.Entry, error) { return nil, errors.ErrUnsupported },
		Guard:  func() elector.Guard { return elector.Guard{} },
	}), nil
}
