package conformance

import (
	"testing"

	"github.com/elector-go/elector/conformance/internal/backendrules"
	"github.com/elector-go/elector/conformance/internal/electionrules"
	"github.com/elector-go/elector/conformance/kit"
)

// TestBackend tries every rule of package backend on a service, each on one that
// newService makes for it, with a Root of its own; the server behind may be the
// same. newService is called once more before, to see what kind of service it is.
//
// Broken rules fail subtests of t that bear the rules' names. The report is logged
// and returned.
//
// The rule soak/links measures the heap of the process. In a package with tests that run in
// parallel use [TestBackendParallel].
func TestBackend(t *testing.T, newService func(t testing.TB) *Service) Report {
	return backendrules.Run(t, newService, nil)
}

// TestBackendParallel is TestBackend beside other parallel tests. It calls t.Parallel, which t
// must not have done before, once the rule that measures the heap has been tried.
func TestBackendParallel(t *testing.T, newService func(t testing.TB) *Service) Report {
	return backendrules.Run(t, newService, t.Parallel)
}

// TestElection tries every rule of an election: what package elector promises of
// terms, tokens, succession and recovery. On a virtual service each rule runs in a
// bubble of its own; on a real one those that do not stop the service run side by
// side.
//
// Broken rules fail subtests of t that bear the rules' names. The report is logged
// and returned.
func TestElection(t *testing.T, cfg ElectionConfig) Report {
	return electionrules.Run(t, cfg)
}

// What you fill in, and what comes back. The fields are documented in package kit.
type (
	// Service is one running coordination service, and what it can be made to do: [kit.Service].
	Service = kit.Service
	// Client is one process of a service, and what can happen to it: [kit.Client].
	Client = kit.Client
	// ElectionConfig says what TestElection is to try: [kit.ElectionConfig].
	ElectionConfig = kit.ElectionConfig
	// Ranking is a candidate's rank, and how those of an election are ranked: [kit.Ranking].
	Ranking = kit.Ranking
	// Ability is what another implementation of elector.Elector may lack: [kit.Ability].
	Ability = kit.Ability

	// Report is what became of all rules of a suite on one service: [kit.Report].
	Report = kit.Report
	// Result is what became of one rule: [kit.Result].
	Result = kit.Result
	// Outcome is what became of a rule, in a word: [kit.Outcome].
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

	// Rest is for Service.Why: [kit.Rest].
	Rest = kit.Rest
)
