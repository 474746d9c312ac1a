package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/memtest"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/parentwatch"
	"github.com/elector-go/elector/strategy/unfair"
)

// strategies are those that mutants are made of, with what they promise.
var strategies = []conformance.ElectionConfig{
	{Strategy: fair.New(), Ordered: true},
	{Strategy: unfair.New(), Herd: true},
	{Strategy: kafka.New(), Herd: true, LooksFirst: true, Dense: true, ID: strconv.Itoa, Entries: controller},
	{Strategy: parentwatch.New(), Ordered: true, Herd: true},
}

// suites are their names, and that of the backends' suite.
var suites = []string{Backend, "fair", "unfair", "kafka", "parentwatch"}

// controller reads the only entry that candidates have in Kafka's layout.
func controller(ctx context.Context, s backend.Session, election string) ([]backend.Entry, error) {
	e, err := s.Get(ctx, election+"/controller")
	if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
		return nil, nil
	}
	return []backend.Entry{e}, err
}

// service makes a memory service as the mutant has it. The rules that are named are
// left out.
func (m Mutant) service(without []string, late time.Duration) func(testing.TB) *conformance.Service {
	newService := memtest.Service(10 * time.Second)
	bubble := false // the first is made to see what it can be made to do
	return func(t testing.TB) *conformance.Service {
		if bubble && m.Name != "" {
			// What a mutant has started may end late, and must end before the bubble.
			t.Cleanup(func() { time.Sleep(late) })
		}
		bubble = true
		svc := newService(t)
		for _, rule := range without {
			svc.Why[rule] = "it never ends on this mutant"
		}
		newClient := svc.Client
		svc.Client = func(t testing.TB) *conformance.Client {
			c := newClient(t)
			c.Backend = m.Backend(c.Backend)
			if f, ok := FaulterOf(c.Backend); ok {
				c.LoseReply = func(kind backend.OpKind) { f.LoseReply(memory.Kind(kind)) }
				c.CutReply = func(kind backend.OpKind) { f.CutReply(memory.Kind(kind)) }
				c.LoseRequest = func(kind backend.OpKind) { f.LoseRequest(memory.Kind(kind)) }
			}
			return c
		}
		return svc
	}
}

// try runs one suite on the mutant.
func (m Mutant) try(t *testing.T, suite string, without []string) conformance.Report {
	if suite == Backend {
		return conformance.TestBackend(t, m.service(without, 2*lingering))
	}
	i := slices.IndexFunc(strategies, func(c conformance.ElectionConfig) bool { return c.Strategy.Name() == suite })
	cfg := strategies[i]
	cfg.Service = m.service(without, 2*time.Minute)
	cfg.Strategy = m.Strategy(cfg.Strategy)
	cfg.New = func(_ *conformance.Client, c elector.Config) (elector.Elector, error) { return m.New(c) }
	return conformance.TestElection(t, cfg)
}

// A child is told by these what to try, and where to put its report.
const (
	envMutant  = "ELECTOR_MUTANT"
	envSuite   = "ELECTOR_MUTANT_SUITE"
	envWithout = "ELECTOR_MUTANT_WITHOUT"
	envReport  = "ELECTOR_MUTANT_REPORT"
)

// TestSuite is what a child runs: one suite on one mutant, which fails.
func TestSuite(t *testing.T) {
	name, child := os.LookupEnv(envMutant)
	if !child {
		return // TestMutants starts the children
	}
	m, ok := Named(name)
	if !ok {
		t.Fatalf("there is no mutant %q", name)
	}
	var without []string
	if list := os.Getenv(envWithout); list != "" {
		without = strings.Split(list, ",")
	}
	report, err := json.Marshal(m.try(t, os.Getenv(envSuite), without))
	if err == nil {
		err = os.WriteFile(os.Getenv(envReport), report, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
