package kit

import (
	"context"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// ElectionConfig says what conformance.TestElection is to try. What an implementation is
// able to do is declared here and in [Service], and never guessed.
type ElectionConfig struct {
	// Service makes a fresh service, or a fresh Root on one that runs already. It
	// is called once per rule, inside the rule's bubble if the service is Virtual,
	// and once before, to see what it can be made to do.
	Service func(t testing.TB) *Service

	// Strategy is the Config.Strategy of all candidates. For one that is
	// elector.CustomLayout the rules about the election's record and directory are not
	// applicable, and Entries has to be given.
	Strategy elector.Strategy

	// ID names the n-th candidate of an election, from 1 on, where the strategy does
	// not take every ID. Nil means c1, c2 …
	ID func(n int) string

	// New makes one candidate, in the process c. Nil means elector.New. It is the
	// place for an adapter that puts another implementation behind elector.Elector.
	New func(c *Client, cfg elector.Config) (elector.Elector, error)

	// Ordered says that candidates lead in the order of their arrival, and that
	// Candidates lists those who wait.
	Ordered bool

	// Ranked says that candidates wait in a directory, and that the best of them creates an entry
	// that all have in common, the seat, and leads by that. Between two terms the seat is vacant. The
	// best of those that wait may watch one entry more than the others.
	Ranked bool

	// Rank makes the strategy of one candidate with a rank of its own, which change changes. Strategy
	// is one whose rank is that of all zeros, which never changes. It is for one that is Ranked: nil says
	// that ranks cannot be set.
	Rank func(Ranking) (s elector.Strategy, change func(rank ...int64))

	// Herd says that a change of leader wakes every candidate. Otherwise it must
	// wake one, and tell at most one other that it is next. One that is Ordered, too,
	// has them watch the directory: whoever comes or goes wakes every candidate.
	Herd bool

	// LooksFirst says that candidates look who leads before they make an offer, and
	// make none while somebody does.
	LooksFirst bool

	// Dense says that tokens are 1, 2, 3 …, each the last one raised by one. Such a
	// token is kept in the service, and begins anew when an operator deletes it
	// together with the election.
	Dense bool

	// StepsAside says that those who stand between the leader and the candidate that it transfers
	// leadership to go to the end of the line, each once, before the leader goes (Hooks.Aside).
	// Otherwise they keep their places, and are passed over.
	StepsAside bool

	// Entries reads what the candidates of an election have in the service, in
	// order of succession, the leader's first. Nil means this library's layout.
	Entries func(ctx context.Context, s *backend.Session, election string) ([]backend.Entry, error)

	// Why maps the name of a rule, or of an Ability, to the reason why it isn't
	// there in this implementation. The suite prints it.
	Why map[string]string
}

// A Ranking is a candidate's rank, and how the strategies of an election rank: alike for all of its
// candidates, but for Rank.
type Ranking struct {
	// Rank are numbers that are compared from the left: the candidate whose number is higher is better.
	// One whose first number is below 0 never leads. Those of equal rank lead in the order of their
	// arrival.
	Rank []int64
	// Quorum is how many that may lead have to stand before one of them leads.
	Quorum int
	// Preempt has the best candidate ask a leader of lower rank to go (elector.Ask), once it has been
	// better for HoldOff.
	Preempt bool
	HoldOff time.Duration
}

// An Ability is something that an Elector of this library has, and that another
// implementation may lack. What ElectionConfig.Why does not name has to be there.
type Ability string

const (
	// AbilityHooks: Config.Hooks are called, but for Stage.
	AbilityHooks Ability = "Hooks"
	// AbilityStages: Hooks.Stage is called.
	AbilityStages Ability = "Hooks.Stage"
	// AbilityBackend: whatever is done in the service is done by Config.Backend.
	AbilityBackend Ability = "Config.Backend"
	// AbilityLayout: the record and directory in the service are this library's.
	AbilityLayout Ability = "Layout"
	// AbilityConfig: Config is checked as elector.New does.
	AbilityConfig Ability = "Config.Validate"
	// AbilitySuspend: Config.OnSuspend is obeyed.
	AbilitySuspend Ability = "Config.OnSuspend"
	// AbilityCommit: Term.Commit and Term.Guard do what they say, and Proclaim is
	// fenced as Commit is.
	AbilityCommit Ability = "Term.Commit"
	// AbilityAsk: the leader's entry is one that elector.Ask can write to, and Term.Asked tells of it.
	AbilityAsk Ability = "Term.Asked"
	// AbilityTransfer: Term.Prepare and Transfer do what they say, with a strategy that is an
	// elector.Transferrer.
	AbilityTransfer Ability = "Term.Transfer"
	// AbilityFit: Config.Fit is heeded.
	AbilityFit Ability = "Config.Fit"
	// AbilityStatus: Status tells what the elector is doing.
	AbilityStatus Ability = "Status"
)
