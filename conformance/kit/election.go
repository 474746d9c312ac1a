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

	// ID names the n-th candidate of an election, from 1, for a strategy that does not take every ID. Nil
	// means c1, c2 …
	ID func(n int) string

	// New makes one candidate, in the process c. Nil means elector.New. An adapter that puts another
	// implementation behind elector.Elector belongs here.
	New func(c *Client, cfg elector.Config) (elector.Elector, error)

	// Ordered says that candidates lead in the order of their arrival, and that Candidates lists those
	// that wait.
	Ordered bool

	// Ranked says that candidates wait in a directory, and that the best of them leads by creating one
	// entry that all share, the seat. Between two terms the seat is vacant. The best of those that wait
	// may watch one entry more than the others.
	Ranked bool

	// Rank makes the strategy of one candidate with a rank of its own; change changes that rank. The rank
	// of Strategy is all zeros and never changes. Rank is for a strategy that is Ranked. Nil means that
	// ranks cannot be set.
	Rank func(Ranking) (s strategy.Strategy, change func(rank ...int64))

	// Herd says that a change of leader wakes every candidate. Otherwise it must wake one, and tell at
	// most one other that it is next. A strategy that is Ordered, too, has its candidates watch the
	// directory: each arrival and departure wakes every candidate.
	Herd bool

	// LooksFirst says that candidates look up who leads before they make an offer, and make none while
	// somebody leads.
	LooksFirst bool

	// Dense says that tokens are 1, 2, 3 …, each the last one plus one. Such a token is kept in the
	// service, and starts again when an operator deletes it together with the election.
	Dense bool

	// StepsAside says that, on a transfer, the candidates between the leader and the heir go to the end
	// of the line, each once, before the leader goes (Hooks.Aside). Otherwise they keep their places, and
	// are passed over.
	StepsAside bool

	// Entries reads the entries of an election's candidates in order of succession, the leader's first.
	// Nil means this library's layout.
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

const (
	// AbilityHooks: Config.Hooks are called, except for Stage.
	AbilityHooks Ability = "Hooks"
	// AbilityStages: Hooks.Stage is called.
	AbilityStages Ability = "Hooks.Stage"
	// AbilityBackend: everything that is done in the service goes through Config.Backend.
	AbilityBackend Ability = "Config.Backend"
	// AbilityLayout: the record and directory in the service are this library's.
	AbilityLayout Ability = "Layout"
	// AbilityConfig: Config is checked as elector.New checks it.
	AbilityConfig Ability = "Config.Validate"
	// AbilitySuspend: Config.OnSuspend is obeyed.
	AbilitySuspend Ability = "Config.OnSuspend"
	// AbilityCommit: Term.Commit and Term.Guard do what they say, and Proclaim is fenced as Commit is.
	AbilityCommit Ability = "Term.Commit"
	// AbilityAsk: inspect.Inspector.Ask can write to the leader's entry, and Term.Asked reports it.
	AbilityAsk Ability = "Term.Asked"
	// AbilityTransfer: Term.Transfer does what it says, with a strategy that is a strategy.Transferrer.
	AbilityTransfer Ability = "Term.Transfer"
	// AbilityFit: Config.Fit is heeded.
	AbilityFit Ability = "Config.Fit"
	// AbilityStatus: Status reports what the elector is doing.
	AbilityStatus Ability = "Status"
)
