package elections_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/conformance/memtest"
	"github.com/elector-go/elector/internal/strategies"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

const memoryTTL = 3 * time.Second

var memoryService = memtest.Service(memoryTTL)

func TestMemory(t *testing.T) {
	for i, cfg := range strategies.All() {
		for name, newService := range map[string]func(testing.TB) *conformance.Service{
			"own sessions":    memoryService,
			"shared sessions": memtest.Shared(memoryService),
			"late messages":   memtest.Late(memoryTTL),
		} {
			t.Run(cfg.Strategy.Name()+", "+name, func(t *testing.T) {
				if testing.Short() && name != "own sessions" && i > 0 {
					t.Skip("make test-all tries it: with -short the first strategy is tried for all of them")
				}
				cfg := cfg
				cfg.Service = newService
				appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised(cfg))
			})
		}
	}
}

// The options of strategies that keep the strategy's promises pass all rules. (ranked's ByID has another
// order, and a quorum of more than one waits for others: the tests of package ranked cover them.)
func TestMemoryOptions(t *testing.T) {
	for name, strategy := range map[string]strategy.Strategy{
		"unfair": unfair.Strategy{Jitter: 10 * time.Millisecond},
		"ranked": ranked.Strategy{Quorum: 1, Preempt: true, HoldOff: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := strategies.Named(name)
			cfg.Strategy, cfg.Service = strategy, memoryService
			appliesAll(t, conformance.TestElection(t, cfg), oneServer, notPromised(cfg))
		})
	}
}

// An elector of another make has no hooks and a layout of its own; the remaining rules pass without them.
func TestMemoryAndAnotherMake(t *testing.T) {
	const why = "another make"
	for i, cfg := range strategies.All() {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with Commit: %v", cfg.Strategy.Name(), commits), func(t *testing.T) {
				if testing.Short() && (commits || i > 0) {
					t.Skip("make test-all tries it: with -short the first strategy is tried for all of them")
				}
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
					conformance.AbilityLayout, conformance.AbilityConfig, conformance.AbilitySuspend, conformance.AbilityFit,
				}
				least := 40
				if !commits {
					lacks, least = append(lacks, conformance.AbilityCommit, conformance.AbilityAsk, conformance.AbilityTransfer), 30
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
		Commit: func(context.Context, ...elector.Write) ([]backend.Entry, error) { return nil, errors.ErrUnsupported },
		Guard:  func() elector.Guard { return elector.Guard{} },
	}), nil
}

// On a service without faults the rules that need none run, and each other rule reports what it lacks.
func TestMemoryWithoutFaults(t *testing.T) {
	for _, cfg := range strategies.All() {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = func(t testing.TB) *conformance.Service {
				full := memoryService(t)
				bare := &conformance.Service{Name: "without faults", Root: full.Root, TTL: full.TTL, Virtual: true, Why: make(map[string]string)}
				bare.Client = func(t testing.TB) *conformance.Client { return &conformance.Client{Backend: full.Client(t).Backend} }
				for _, of := range []reflect.Type{reflect.TypeFor[conformance.Service](), reflect.TypeFor[conformance.Client]()} {
					for i := range of.NumField() {
						bare.Why[of.Field(i).Name] = "it is not to"
					}
				}
				return bare
			}
			report := conformance.TestElection(t, cfg)
			if report.Count(conformance.Passed) < 20 || report.Count(conformance.NotApplicable) < 20 {
				t.Errorf("%d rules passed, %d are not applicable: one of the two has been forgotten", report.Count(conformance.Passed), report.Count(conformance.NotApplicable))
			}
		})
	}
}
