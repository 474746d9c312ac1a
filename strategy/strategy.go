// Package strategy is the contract between electors and strategies of elections: what one implements to
// elect leaders in another way. The packages below it are strategies; catalog lists them, and entries has what
// they share. A program that takes part in an election needs one of those, and package elector.
//
// A [Strategy] gets a [Candidacy], makes entries in its Session, and returns a [Claim] when one of them leads.
// The elector does the rest: sessions, retries, terms, and writes under the claim's conditions.
package strategy

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
)

// A Strategy decides who waits for whom, and who wins. It is blocking, cancellable code that uses only
// backend.Session: it has no client type, and holds no state of an election, so that one value serves any
// number of electors. It needs no clock for safety; one that takes turns by time, such as ranked's HoldOff,
// uses package time, and a goroutine that it starts ends with the call.
//
// docs/internals/write-a-strategy.md builds and tests one.
//
// All methods return as soon as ctx ends or the session is lost, with that error.
type Strategy interface {
	// Name returns the word that the first candidate records in the election.
	Name() string

	// Campaign enters the candidate and blocks until it is elected. Before it returns an error, it
	// withdraws every entry it made (Candidacy.Withdraw). It may return any error of the backend: the
	// elector tries again where that is useful. On backend.ErrUsedUp, the elector moves to a new directory
	// when all entries enqueued in the old one have gone: if a strategy enqueues in a directory, only a
	// candidate that has such an entry may begin to lead there. On backend.ErrNoParent, it does so when
	// Observe reports that nobody leads in the old one: if the directory is gone, nobody may begin to lead
	// after that.
	Campaign(ctx context.Context, c *Candidacy) (Claim, error)

	// Observe yields who leads in the election's directory now (the zero Leader: nobody), then again after
	// each change, until it yields an error. It may yield the same leader twice. Leader.Seat is the entry
	// that an operator's request to go is written to: its value is a JSON object, and it is the leader's
	// Claim.Entry. Observe sets no watch before its first yield.
	Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[Leader, error]

	// Candidates lists the candidates, in order of succession if there is one.
	Candidates(ctx context.Context, s *backend.Session, dir string) ([]Candidate, error)
}

// A CustomLayout strategy takes part in elections whose layout somebody else has defined, such as those of
// Apache Kafka. They have no place for the election's record, so nothing keeps out candidates with another
// strategy. Candidacy.Dir and the dir of Observe and Candidates are elector.Config.Election itself, which
// may be "/" and which the elector does not make.
type CustomLayout interface {
	Strategy
	// Identify returns the ID by which the layout knows the candidate; it becomes Candidacy.ID. id and
	// election are those of elector.Config. The error, which elector.New reports as ErrConfig, says what
	// the layout cannot carry; it begins with the field's name: "ID ... is no broker id".
	Identify(id, election string) (known string, err error)
	// Landmark returns the key that exists in the service if there is, or was, such an election at a path.
	// Candidates and observers may read it.
	Landmark(election string) (key string)
}

// A Transferrer is a strategy that can make a candidate the next leader: see elector.Term.Transfer. With
// other strategies, that returns elector.ErrNoTransfer.
type Transferrer interface {
	Strategy
	// Transfer blocks until h.Heir is next, so that it leads when the leader resigns, or until ctx ends,
	// which ends with the term. The leader continues to lead meanwhile. It returns ErrNoCandidate if the
	// heir has gone, and ErrDeposed if the seat is another's; any other error says which candidate is in
	// between, if known. What it has told others has no effect once the leader has gone for another
	// reason.
	Transfer(ctx context.Context, h *Handover) error
}

// A Handover is the input of a Transferrer.
type Handover struct {
	// Session is the leader's session, and Dir is the election's directory, as in Candidacy.
	Session *backend.Session
	Dir     string
	// Seat is Claim.Entry as last seen.
	Seat backend.Entry
	// Heir is the candidate that should lead next, as listed by Candidates.
	Heir Candidate
	// Name writes the heir into the leader's entry, where everybody who watches it can find it: see
	// entries.Heir. The name stays there when the leader publishes a value, and is removed if Transfer
	// fails.
	Name func(ctx context.Context) error
}

// A Designator is a strategy that heeds an operator's designation: see inspect.Inspector.Designate. With
// other strategies, that returns elector.ErrNoDesignation.
type Designator interface {
	Strategy
	// HeedsDesignation only marks the strategy. It does nothing.
	HeedsDesignation()
}

// An UnfitStands strategy lets an unfit candidate continue to stand, where all can see it, but does not
// let it lead: see elector.Fit and Candidacy.Fit. With other strategies, the elector withdraws such a
// candidate. With all strategies, the elector calls Hooks.Aside, refuses a win of an unfit candidate, and
// asks an unfit leader to go.
type UnfitStands interface {
	Strategy
	// UnfitStands only marks the strategy. It does nothing.
	UnfitStands()
}

// A Candidacy describes the candidate to the strategy that campaigns for it.
type Candidacy struct {
	// Session is the session for the candidate's entries.
	Session *backend.Session
	// Dir is the election's directory. Its last segment is random and new each time the election is
	// founded, so that a condition on an entry in it never matches a later incarnation of the election
	// (but see CustomLayout).
	Dir string
	// ID and Value are those of elector.Config (but see CustomLayout).
	ID    string
	Value []byte
	// Host is what the methods of Candidacy call. A test that makes a Candidacy may leave it empty.
	Host Host
}

// A Host is the side of a campaign that is not the strategy's: the elector, or a test. Its functions do what
// the methods of Candidacy with the same names say. Without one, Withdraw discards the entry, and the others
// do nothing.
type Host struct {
	Begin    func(s Stage) (completed func(error))
	Sees     func(leader Leader, place int)
	Withdraw func(ctx context.Context, e backend.Entry) error
	Fit      func() (changed <-chan struct{}, unfit error)
	Aside    func(why error)
}

// Begin reports that a stage of the recipe begins. Call the returned function when the stage completes.
func (c *Candidacy) Begin(s Stage) (completed func(error)) {
	if c.Host.Begin == nil {
		return func(error) {}
	}
	return c.Host.Begin(s)
}

// Sees reports who leads, and the candidate's place in line, beginning with 1, or 0 if unknown, for
// Elector.Status. Call it in the stage in which the candidate waits, with what a read or a wait has shown,
// before waiting for a change: Status treats it as current until the stage completes. It costs nothing,
// and is optional.
func (c *Candidacy) Sees(leader Leader, place int) {
	if c.Host.Sees != nil {
		c.Host.Sees(leader, place)
	}
}

// Withdraw removes an entry of the candidate. It works even after ctx has ended: it waits a short time for
// confirmation; after that the session continues in the background.
func (c *Candidacy) Withdraw(ctx context.Context, e backend.Entry) error {
	if c.Host.Withdraw == nil {
		return c.Session.Discard(ctx, e)
	}
	return c.Host.Withdraw(ctx, e)
}

// Fit returns nil if the application can lead (elector.Config.Fit) or there is no check, and otherwise why
// it cannot. changed is closed when the answer changes.
func (c *Candidacy) Fit() (changed <-chan struct{}, unfit error) {
	if c.Host.Fit == nil {
		return nil, nil
	}
	return c.Host.Fit()
}

// Aside reports that the candidate stands aside because of why: it continues to wait, and others may lead
// before it (Hooks.Aside).
func (c *Candidacy) Aside(why error) {
	if c.Host.Aside != nil {
		c.Host.Aside(why)
	}
}

// Pause blocks for a random time up to most, for strategies that spread a herd of candidates.
func (c *Candidacy) Pause(ctx context.Context, most time.Duration) error {
	if most <= 0 {
		return ctx.Err()
	}
	return delay.Sleep(ctx, rand.N(most))
}

// A Claim is what a strategy won: the entry that is the leader's seat, and how to hold, publish and
// release it.
type Claim struct {
	// Entry exists as long as the term may last: its deletion ends the term.
	Entry backend.Entry
	// Token is the term's fencing token; not 0.
	Token uint64
	// Conditions hold from the claim on, and no longer than Entry exists. Every write of the term has
	// them.
	Conditions []backend.Condition
	// Encode returns the payload of Entry that publishes value. It must be a JSON object, so that an
	// operator's request can be added to it.
	Encode func(value []byte) []byte
	// StillLeads, if set, reports whether the current state of Entry still says that this candidate leads:
	// false ends the term, and the entry is removed.
	StillLeads func(backend.Entry) bool
	// MarkLeader requests a write of the payload as soon as the term has begun, because others rely on it.
	MarkLeader bool
	// Renew, if set, blocks until Encode returns, for the same value, another payload than it did when
	// Campaign returned or Renew last returned. The elector then writes that payload. Renew returns an
	// error only when ctx ends.
	Renew func(ctx context.Context) error
}
