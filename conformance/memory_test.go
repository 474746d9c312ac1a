package conformance_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// memoryService is a memory.Service as the suites see it.
func memoryService(testing.TB) *conformance.Service {
	svc := memory.New(memory.Options{})
	clients := 0
	return &conformance.Service{
		Name:    "memory",
		Root:    "/conformance",
		TTL:     3 * time.Second,
		Virtual: true,
		Client: func(testing.TB) *conformance.Client {
			clients++
			c := svc.Client(fmt.Sprintf("process %d", clients))
			return &conformance.Client{
				Backend:     c,
				Suspend:     c.Suspend,
				Resume:      c.Resume,
				Expire:      c.Expire,
				LoseReply:   func(kind backend.OpKind) { c.LoseReply(memory.Kind(kind)) },
				CutReply:    func(kind backend.OpKind) { c.CutReply(memory.Kind(kind)) },
				LoseRequest: func(kind backend.OpKind) { c.LoseRequest(memory.Kind(kind)) },
				HoldWakeups: c.HoldWakeups,
			}
		},
		Delete:  func(key string) error { svc.Delete(key); return nil },
		Put:     svc.Put,
		Stop:    func() error { svc.Stop(); return nil },
		Start:   func() error { svc.Start(); return nil },
		Why:     map[string]string{"StopMember": "the service is one"},
		Watches: func() (int, error) { return svc.Stats().Watches, nil },
	}
}

// sharing has the electors of a process share one session.
func sharing(newService func(testing.TB) *conformance.Service) func(testing.TB) *conformance.Service {
	return func(t testing.TB) *conformance.Service {
		svc := newService(t)
		own := svc.Client
		svc.Client = func(t testing.TB) *conformance.Client {
			c := own(t)
			c.Backend = backend.Share(c.Backend, svc.TTL)
			return c
		}
		return svc
	}
}

// strategies are those of an election, with what they promise.
var strategies = []conformance.ElectionConfig{
	{Strategy: fair.New(), Ordered: true},
	{Strategy: unfair.New(), Herd: true},
}

func TestElectionOnMemory(t *testing.T) {
	for _, cfg := range strategies {
		for name, newService := range map[string]func(testing.TB) *conformance.Service{
			"own sessions":    memoryService,
			"shared sessions": sharing(memoryService),
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
	"fair":   {"data/foreign-seat", "recipe/herd"},
	"unfair": {"data/deleted-at-handover", "data/waiting-deleted", "recipe/one-wake-up", "recipe/withdrawal-wakes-one", "term/order"},
}

// oneServer are the rules about ensembles.
var oneServer = []string{"server/member-killed"}

// appliesAll checks that no rule was left out but these.
func appliesAll(t *testing.T, report conformance.Report, but ...[]string) {
	t.Helper()
	for _, r := range report.Results {
		if r.Outcome == conformance.NotApplicable && !slices.Contains(slices.Concat(but...), r.Rule) {
			t.Errorf("rule %s was not tried: %s", r.Rule, r.Reason)
		}
	}
}

// An elector of another make has no hooks and a layout of its own. The rules that
// are left must do without.
func TestElectionOfAnotherMake(t *testing.T) {
	const why = "another make"
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			cfg := cfg
			cfg.Service = memoryService
			cfg.New = func(c *conformance.Client, own elector.Config) (elector.Elector, error) {
				return elector.New(elector.Config{
					Backend: c.Backend, Strategy: own.Strategy, Election: own.Election,
					ID: own.ID, Value: own.Value, TTL: own.TTL,
				})
			}
			cfg.Why = map[string]string{}
			for _, lacks := range []conformance.Ability{
				conformance.AbilityHooks, conformance.AbilityStages, conformance.AbilityBackend,
				conformance.AbilityLayout, conformance.AbilityConfig, conformance.AbilitySuspend,
			} {
				cfg.Why[string(lacks)] = why
			}
			report := conformance.TestElection(t, cfg)
			if n := report.Count(conformance.Passed); n < 30 {
				t.Errorf("only %d rules passed", n)
			}
		})
	}
}
