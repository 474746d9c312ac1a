package kit

import (
	"context"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// ElectionConfig says what conformance.TestElection tries. What an implementation can do is declared here
// and in [Service], and never guessed.
type ElectionConfig struct {
	// Service makes a fresh service, or a fresh Root on a running one. It is called once per rule, inside
	// the rule's bubble if the service is Virtual, and once before, to see what the service can do.
	Service func(t testing.TB) *Service

	// Strategy is the Config.Strategy of all candidates. If it is a strategy.CustomLayout, the rules
	// about the election's record and directory are not applicable, and Entries is required.
	Strategy strategy.Strategy

	// Traits are the strategy's promises beyond those of all strategies. The rules about what it does not
	// promise are not applicable.
	strategy.Traits

	// ID names the n-th candidate of an election, from 1, for a strategy that does not take every ID. Nil
	// means c1, c2 …, or the number n if the strategy is Numeric.
	ID func(n int) string

	// New makes one candidate, in the process c. Nil means elector.New. An adapter that puts another
	// implementation behind elector.Elector belongs here.
	New func(c *Client, cfg elector.Config) (elector.Elector, error)

	// Rank makes the strategy of one candidate with a rank of its own; change changes that rank. The rank
	// of Strategy is all zeros and never changes. Rank is for a strategy that is Ranked. Nil means that
	// ranks cannot be set.
	Rank func(Ranking) (s strategy.Strategy, change func(rank ...int64))

	// Entries reads the entries of an election's candidates: the leader's first, and then by age. Nil
	// means this library's layout.
	Entries func(ctx context.Context, s *backend.Session, election string) ([]backend.Entry, error)

	// Why maps the name of a rule, or of an Ability, to the reason why this implementation does not have
	// it. The suite prints it.
	Why map[string]string
}

// A Ranking is a candidate's rank, and how the strategies of an election use ranks. All of an election's
// candidates have the same Ranking except for Rank.
type Ranking struct {
	// Rank is a list of numbers, compared from the left: the candidate with the higher number is better.
	// A candidate whose first number is below 0 never leads. Candidates of equal rank lead in the order
	// of their arrival.
	Rank []int64
	// Quorum is how many candidates that may lead must stand before one of them leads.
	Quorum int
	// Preempt makes the best candidate ask a leader of lower rank to go (as inspect.Inspector.Ask does), once it has been
	// better for HoldOff.
	Preempt bool
	HoldOff time.Duration
}

// An Ability is a feature of this library's Elector that another implementation may lack. An Ability that
// ElectionConfig.Why does not name must be there.
type Ability string

// Package conformance documents them.
const (
	AbilityHooks    Ability = "Hooks"
	AbilityStages   Ability = "Hooks.Stage"
	AbilityBackend  Ability = "Config.Backend"
	AbilityLayout   Ability = "Layout"
	AbilityConfig   Ability = "Config.Validate"
	AbilitySuspend  Ability = "Config.OnSuspend"
	AbilityCommit   Ability = "Term.Commit"
	AbilityAsk      Ability = "Term.Asked"
	AbilityTransfer Ability = "Term.Transfer"
	AbilityFit      Ability = "Config.Fit"
	AbilityStatus   Ability = "Status"
)
