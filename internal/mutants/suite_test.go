package mutants

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/conformance/memtest"
	"github.com/elector-go/elector/internal/strategies"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

// suites are the names of the strategies that mutants are made of, and the name of the backends' suite.
var suites = append([]string{Backend}, catalog.Names()...)

// service makes a memory service with the mutant's fault, and leaves out the named rules.
func (m Mutant) service(without []string, late time.Duration) func(testing.TB) *conformance.Service {
	newService := memtest.Service(10 * time.Second)
	bubble := false // the first service only shows what can be done to it
	return func(t testing.TB) *conformance.Service {
		if bubble && m.Name != "" {
			// Work that a mutant has started may end late, but must end before the bubble.
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
			if l, ok := losingBy(c.Backend); ok {
				c.LoseReply, c.CutReply, c.LoseRequest = l.loseReply, l.cutReply, l.loseRequest
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
	cfg, ok := strategies.Named(suite)
	require.True(t, ok, "there is no strategy %q", suite)
	cfg.Service = m.service(without, 2*time.Minute)
	cfg.Strategy = m.Strategy(cfg.Strategy)
	if rank := cfg.Rank; rank != nil {
		cfg.Rank = func(r conformance.Ranking) (strategy.Strategy, func(...int64)) {
			s, change := rank(r)
			return m.Strategy(s), change
		}
	}
	cfg.New = func(_ *conformance.Client, c elector.Config) (elector.Elector, error) { return m.New(c) }
	return conformance.TestElection(t, cfg)
}

// These variables tell a child what to run, and where to write its report.
const (
	envMutant  = "ELECTOR_MUTANT"
	envSuite   = "ELECTOR_MUTANT_SUITE"
	envWithout = "ELECTOR_MUTANT_WITHOUT"
	envReport  = "ELECTOR_MUTANT_REPORT"
)

// TestSuite runs in a child: one suite on one mutant, which fails.
func TestSuite(t *testing.T) {
	name, child := os.LookupEnv(envMutant)
	if !child {
		return // TestMutants starts the children
	}
	m, ok := Named(name)
	require.True(t, ok, "there is no mutant %q", name)
	var without []string
	if list := os.Getenv(envWithout); list != "" {
		without = strings.Split(list, ",")
	}
	report, err := json.Marshal(m.try(t, os.Getenv(envSuite), without))
	if err == nil {
		err = os.WriteFile(os.Getenv(envReport), report, 0o600)
	}
	require.NoError(t, err)
}
