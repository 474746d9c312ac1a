package elector

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Strategy decides who waits for whom, and who wins. It is blocking, cancellable code that uses only
// backend.Session: it has no clock, no client type and no goroutine of its own, and holds no state of an
// election, so that one value serves any number of electors.
//
// docs/internals/write-a-strategy.md builds and tests one; package strategy/entries has what strategies share, and
// strategy/catalog lists the existing ones.
//
// All methods return as soon as ctx ends or the session is lost, with that error.
type Strategy interface {
	// Name returns the word that the first candidate records in the election.
	Name() string

	// Campaign enters the candidate and blocks until it is elected. Before it returns an error, it
	// withdraws every entry it made (Candidacy.Withdraw). It may return any error of the backend: the
	// elector tries again where that is useful. On backend.ErrUsedUp, the elector moves to a new directory
	// when all entries enqueued in the old one have gone: if a strategy enqueues in a directory, only such
	// an entry may lead there. On backend.ErrNoParent, it does so when Observe reports that nobody leads
	// in the old one: if the directory is gone, nobody may begin to lead after that.
	Campaign(ctx context.Context, c *Candidacy) (Claim, error)

	// Observe yields who leads in the election's directory now (the zero Leader: nobody), then again after
	// each change, until it yields an error. It may yield the same leader twice. Leader.Seat is the entry
	// that Ask writes to: its value is a JSON object, and it is the leader's Claim.Entry. Observe sets no
	// watch before its first yield.
	Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[Leader, error]

	// Candidates lists the candidates, in order of succession if there is one.
	Candidates(ctx context.Context, s *backend.Session, dir string) ([]Candidate, error)
}

// A CustomLayout strategy takes part in elections whose layout somebody else has defined, such as those of
// Apache Kafka. They have no place for the election's record, so nothing keeps out candidates with another
// strategy. Candidacy.Dir and the dir of Observe and Candidates are Config.Election itself, which may be
// "/" and which the elector does not make.
type CustomLayout interface {
	Strategy
	// Identify returns the ID by which the layout knows the candidate; it becomes Candidacy.ID. Its error,
	// which New reports as ErrConfig, says what in cfg the layout cannot carry; it begins with the field's
	// name: "ID ... is no broker id".
	Identify(cfg Config) (id string, err error)
}

// A Transferrer is a strategy that can make a candidate the next leader: see Term.Transfer. With other
// strategies, that returns ErrNoTransfer.
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

	name func(ctx context.Context) error
}

// Name writes the heir into the leader's entry, where everybody who watches it can find it: see
// entries.Heir. The name stays there when the leader publishes a value, and is removed if Transfer fails.
func (h *Handover) Name(ctx context.Context) error { return h.name(ctx) }

// A Designator is a strategy that heeds an operator's designation: see Designate. With other strategies,
// that returns ErrNoDesignation.
type Designator interface {
	Strategy
	// HeedsDesignation only marks the strategy. It does nothing.
	HeedsDesignation()
}

// An UnfitStands strategy lets an unfit candidate continue to stand, where all can see it, but does not
// let it lead: see Config.Fit and Candidacy.Fit. With other strategies, the elector withdraws such a
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
	// ID and Value are those of Config (but see CustomLayout).
	ID    string
	Value []byte

	hooks       *hooks // hooks and log are nil in a Candidacy that no elector made
	log         *slog.Logger
	fitness     *fitness     // nil if there is no check
	observation *observation // nil in a Candidacy that no elector made
	withdraw    func(ctx context.Context, e backend.Entry) error
}

// Begin reports that a stage of the recipe begins. Call the returned function when the stage completes.
func (c *Candidacy) Begin(s Stage) (completed func(error)) {
	if c.hooks == nil {
		return func(error) {}
	}
	c.observation.rests()
	end := c.hooks.begin(s, nil)
	return func(err error) {
		c.observation.rests()
		end(err)
	}
}

// Sees reports who leads, and the candidate's place in line, beginning with 1, or 0 if unknown, for
// Elector.Status. Call it in the stage in which the candidate waits, with what a read or a wait has shown,
// before waiting for a change: Status treats it as current until the stage completes. It costs nothing,
// and is optional.
func (c *Candidacy) Sees(leader Leader, place int) {
	c.observation.sees(leader, place)
	c.observation.waits()
}

// Withdraw removes an entry of the candidate. It works even after ctx has ended: it waits a short time for
// confirmation; after that the session continues in the background.
func (c *Candidacy) Withdraw(ctx context.Context, e backend.Entry) error {
	return c.withdraw(ctx, e)
}

// Fit returns nil if the application can lead (Config.Fit) or there is no check, and otherwise why it
// cannot. changed is closed when the answer changes.
func (c *Candidacy) Fit() (changed <-chan struct{}, unfit error) {
	if c.fitness == nil {
		return nil, nil
	}
	return c.fitness.now()
}

// Aside reports that the candidate stands aside because of why: it continues to wait, and others may lead
// before it (Hooks.Aside).
func (c *Candidacy) Aside(why error) {
	if c.hooks != nil {
		c.observation.s.placeChanged()
		c.log.Info("standing aside", "why", why)
		c.hooks.aside(why)
	}
}

// Pause blocks for a random time up to most, for strategies that spread a herd of candidates.
func (c *Candidacy) Pause(ctx context.Context, most time.Duration) error {
	if most <= 0 {
		return ctx.Err()
	}
	return sleep(ctx, rand.N(most))
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
	// Encode returns the payload of Entry that publishes value. It must be a JSON object, so that Ask can
	// add a request to it.
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

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-timer.C:
		return nil
	}
}
