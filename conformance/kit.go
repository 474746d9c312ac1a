package conformance

import "github.com/elector-go/elector/conformance/kit"

// What you fill in. The fields are in package kit: go doc conformance/kit.Service.
type (
	// Service is one running coordination service, and what it can be made to do: [kit.Service].
	Service = kit.Service
	// Client is one process of a service, and what can happen to it: [kit.Client].
	Client = kit.Client
	// Control observes one server beside the rules: [kit.Control].
	Control = kit.Control
	// ElectionConfig says what TestElection is to try: [kit.ElectionConfig].
	ElectionConfig = kit.ElectionConfig
	// Ability is what another implementation of elector.Elector may lack: [kit.Ability].
	Ability = kit.Ability
)

// What ElectionConfig.Why may name, beside rules.
const (
	AbilityHooks   = kit.AbilityHooks
	AbilityStages  = kit.AbilityStages
	AbilityBackend = kit.AbilityBackend
	AbilityLayout  = kit.AbilityLayout
	AbilityConfig  = kit.AbilityConfig
	AbilitySuspend = kit.AbilitySuspend
	AbilityCommit  = kit.AbilityCommit
)

// What comes back.
type (
	// Report is what became of all rules of a suite on one service: [kit.Report].
	Report = kit.Report
	// Result is what became of one rule: [kit.Result].
	Result = kit.Result
	// Outcome is one of the three that follow: [kit.Outcome].
	Outcome = kit.Outcome
)

const (
	Passed        = kit.Passed
	Failed        = kit.Failed
	NotApplicable = kit.NotApplicable
)
