package conformance

import (
	"testing"

	"github.com/elector-go/elector/conformance/internal/backendrules"
	"github.com/elector-go/elector/conformance/internal/electionrules"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/strategy"
)

// TestBackend tries every rule of package backend. For each rule newService makes a service with a Root
// of its own; the server behind it may be the same. TestBackend calls newService once more before, to see
// what kind of service it is.
//
// A broken rule fails a subtest of t with the rule's name. The report is logged and returned.
//
// The rule soak/links measures the heap of the process. In a package with parallel tests, use
// [TestBackendParallel].
func TestBackend(t *testing.T, newService func(t testing.TB) *Service) Report {
	return backendrules.Run(t, newService, nil)
}

// TestBackendParallel is TestBackend beside other parallel tests. It calls t.Parallel after the rule that
// measures the heap. The caller must not have called t.Parallel before.
func TestBackendParallel(t *testing.T, newService func(t testing.TB) *Service) Report {
	return backendrules.Run(t, newService, t.Parallel)
}

// TestElection tries every rule of an election: what package elector promises of terms, tokens,
// succession and recovery. On a virtual service each rule runs in a bubble of its own. On a real service
// the rules that do not stop the service run in parallel.
//
// A broken rule fails a subtest of t with the rule's name. The report is logged and returned.
func TestElection(t *testing.T, cfg ElectionConfig) Report {
	return electionrules.Run(t, cfg)
}

// The types that you fill in, and those that are returned. Package kit documents their fields.
type (
	// Service is one running coordination service, and what tests can do to it: [kit.Service].
	Service = kit.Service
	// Client is one process of a service, and the faults that tests can cause in it: [kit.Client].
	Client = kit.Client
	// ElectionConfig says what TestElection tries: [kit.ElectionConfig].
	ElectionConfig = kit.ElectionConfig
	// Traits tell strategies apart: [strategy.Traits].
	Traits = strategy.Traits
	// Ranking is a candidate's rank, and how an election uses ranks: [kit.Ranking].
	Ranking = kit.Ranking
	// Ability is a feature that another implementation of elector.Elector may lack: [kit.Ability].
	Ability = kit.Ability

	// Report lists the results of all rules of a suite on one service: [kit.Report].
	Report = kit.Report
	// Result is the result of one rule: [kit.Result].
	Result = kit.Result
	// Outcome says whether a rule passed, in a word: [kit.Outcome].
	Outcome = kit.Outcome
)

const (
	AbilityHooks   = kit.AbilityHooks
	AbilityStages  = kit.AbilityStages
	AbilityBackend = kit.AbilityBackend
	AbilityLayout  = kit.AbilityLayout
	AbilityConfig  = kit.AbilityConfig
	AbilitySuspend = kit.AbilitySuspend
	AbilityCommit  = kit.AbilityCommit
	AbilityAsk     = kit.AbilityAsk
	AbilityFit     = kit.AbilityFit
	AbilityStatus  = kit.AbilityStatus

	AbilityTransfer = kit.AbilityTransfer

	Passed        = kit.Passed
	Failed        = kit.Failed
	NotApplicable = kit.NotApplicable
	LeftOut       = kit.LeftOut

	// Rest is a key of Service.Why: [kit.Rest].
	Rest = kit.Rest
)
