package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/memtest"
	"github.com/elector-go/elector/internal/strategies"
)

const memoryTTL = 3 * time.Second

var memoryService = memtest.Service(memoryTTL)

func TestElectionOnMemory(t *testing.T) {
	for _, cfg := range strategies.All() {
		for name, newService := range map[string]func(testing.TB) *conformance.Service{
			"own sessions":    memoryService,
			"shared sessions": memtest.Shared(memoryService),
			"late messages":   memtest.Late(memoryTTL),
		} {
			t.Run(cfg.Strategy.Name()+", "+name, func(t *testing.T) {
				cfg := cfg
				cfg.Service = newService
				appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised[cfg.Strategy.Name()])
			})
		}
	}
}

// An elector of another make has no hooks and a layout of its own. The rules that
// are left must do without.
func TestElectionOfAnotherMake(t *testing.T) {
	const why = "another make"
	for _, cfg := range strategies.All() {
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
