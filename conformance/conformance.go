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

// The types that you fill in, and those that are returned. They are defined where the rules can import them,
// too, so the fields are documented there: go doc [github.com/elector-go/elector/conformance/kit].
type (
	// A Service is one running coordination service, and what tests can do to it: [kit.Service].
	Service = kit.Service
	// A Client is one process of a service, and the faults that tests can cause in it: [kit.Client].
	Client = kit.Client

	// An ElectionConfig says what TestElection tries: [kit.ElectionConfig].
	ElectionConfig = kit.ElectionConfig
	// Traits tell strategies apart: [strategy.Traits].
	Traits = strategy.Traits
	// A Ranking is a candidate's rank, and how an election uses ranks: [kit.Ranking].
	Ranking = kit.Ranking
	// An Ability is a feature of this library's Elector that another implementation may lack. An Ability that
	// ElectionConfig.Why does not name must be there.
	Ability = kit.Ability

	// A Report lists the results of all rules of a suite on one service: [kit.Report].
	Report = kit.Report
	// A Result is the result of one rule on one service: [kit.Result].
	Result = kit.Result
	// An Outcome says whether a rule passed.
	Outcome = kit.Outcome
)

// The abilities.
const (
	// AbilityHooks: Config.Hooks are called, except for Stage.
	AbilityHooks = kit.AbilityHooks
	// AbilityStages: Hooks.Stage is called.
	AbilityStages = kit.AbilityStages
	// AbilityBackend: everything that is done in the service goes through Config.Backend.
	AbilityBackend = kit.AbilityBackend
	// AbilityLayout: the record and directory in the service are this library's.
	AbilityLayout = kit.AbilityLayout
	// AbilityConfig: Config is checked as elector.New checks it.
	AbilityConfig = kit.AbilityConfig
	// AbilitySuspend: Config.OnSuspend is obeyed.
	AbilitySuspend = kit.AbilitySuspend
	// AbilityCommit: Term.Commit and Term.Guard do what they say, and Proclaim is fenced as Commit is.
	AbilityCommit = kit.AbilityCommit
	// AbilityAsk: inspect.Inspector.Ask can write to the leader's entry, and Term.Asked reports it.
	AbilityAsk = kit.AbilityAsk
	// AbilityTransfer: Term.Transfer does what it says, with a strategy that is a strategy.Transferrer.
	AbilityTransfer = kit.AbilityTransfer
	// AbilityFit: Config.Fit is heeded.
	AbilityFit = kit.AbilityFit
	// AbilityStatus: Status reports what the elector is doing.
	AbilityStatus = kit.AbilityStatus
)

// The outcomes.
const (
	Passed        = kit.Passed
	Failed        = kit.Failed
	NotApplicable = kit.NotApplicable
	// LeftOut: go test -short leaves the rule out on a service that is not Virtual.
	LeftOut = kit.LeftOut
)

// Rest is the key in Service.Why of the reason for all unset fields that are not named there, for example
// while you write a backend: Why: {conformance.Rest: "no faults yet"}.
const Rest = kit.Rest
