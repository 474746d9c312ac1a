package elector

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Strategy says who waits for whom, and who wins. It is blocking, cancellable
// code written against backend.Session alone: it has no clock, no client type and
// no goroutine of its own, and holds no state of an election, so that one value
// serves any number of electors.
//
// docs/internals/write-a-strategy.md builds one and tests it; package strategy/entries has what
// strategies share, and strategy/catalog those that there are.
//
// All methods return as soon as ctx ends or the session is lost, with that error.
type Strategy interface {
	// Name is the word that the first candidate records in the election.
	Name() string

	// Campaign enters the candidate and blocks until it is elected. On return with
	// an error it has withdrawn every entry it made (Candidacy.Withdraw). It may
	// return any error of the backend: the elector tries again where that is of use. On
	// backend.ErrUsedUp it goes on in a new directory when none of the entries enqueued in
	// the old one stands: in a directory where one enqueues only such an entry may lead. On
	// backend.ErrNoParent it does so when Observe tells that nobody leads in the old one:
	// where the directory is gone, nobody may come to lead after that.
	Campaign(ctx context.Context, c *Candidacy) (Claim, error)

	// Observe yields who leads in the election's directory now (the zero Leader:
	// nobody), then again after each change, until it yields an error. It may
	// yield the same leader twice. Leader.Seat is what Ask writes to: a JSON object, and what
	// Claim.Entry is to the leader. It sets no watch before it has yielded first.
	Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[Leader, error]

	// Candidates lists the candidates, in order of succession where there is one.
	Candidates(ctx context.Context, s *backend.Session, dir string) ([]Candidate, error)
}

// A CustomLayout strategy takes part in elections whose layout in the service somebody
// else has defined, such as Apache Kafka. There is no place for the election's
// record in them, so that nothing keeps candidates with another strategy away.
// Candidacy.Dir and the dir of Observe and Candidates is Config.Election itself,
// which may also be "/", and which nobody has made.
type CustomLayout interface {
	Strategy
	// Identify returns the ID by which the layout knows the candidate, which
	// Candidacy.ID will be. Its error, which New reports as ErrConfig, tells what of
	// cfg the layout cannot carry; it begins with the field's name: "ID ... is no
	// broker id".
	Identify(cfg Config) (id string, err error)
}

// A Transferrer is a strategy that can make a candidate the next leader: see Term.Transfer. Others
// refuse with ErrNoTransfer.
type Transferrer interface {
	Strategy
	// Transfer blocks until h.Heir is next, so that it leads when the leader resigns, or until ctx
	// ends, as it does with the term. The leader leads on meanwhile. It is ErrNoCandidate if the heir
	// has gone, and ErrDeposed if the seat is another's; any other error tells who stands in between,
	// where that is known. What it has told
	// others is of no consequence once the leader has gone for another reason.
	Transfer(ctx context.Context, h *Handover) error
}

// A Handover is what a Transferrer needs to know.
type Handover struct {
	// Session is the leader's, and Dir the election's directory, as in Candidacy.
	Session *backend.Session
	Dir     string
	// Seat is Claim.Entry as it was seen last.
	Seat backend.Entry
	// Heir is the candidate that is to lead next, as Candidates has listed it.
	Heir Candidate

	name func(ctx context.Context) error
}

// Name writes into the leader's entry who the heir is, where those who watch it find it: see
// entries.Heir. The name stays there when the leader publishes a value, and goes if Transfer fails.
func (h *Handover) Name(ctx context.Context) error { return h.name(ctx) }

// A Designator is a strategy that heeds whom an operator has designated: see Designate. Others
// refuse with ErrNoDesignation.
type Designator interface {
	Strategy
	// HeedsDesignation says so, and does nothing.
	HeedsDesignation()
}

// An UnfitStands strategy lets a candidate that is not fit stand on, where all can see it, and has
// it not lead: see Config.Fit and Candidacy.Fit. The elector withdraws those of other strategies. It
// calls Hooks.Aside for all, refuses a win that comes all the same, and asks a leader to go.
type UnfitStands interface {
	Strategy
	// UnfitStands says so, and does nothing.
	UnfitStands()
}

// A Candidacy is what a strategy needs to know of the candidate it campaigns for.
type Candidacy struct {
	// Session is where its entries go.
	Session *backend.Session
	// Dir is the election's directory. Its last segment is random, made anew each
	// time the election is founded, so that a guard on an entry in it can never
	// hit a later incarnation of the election (but see CustomLayout).
	Dir string
	// ID and Value are the candidate's: those of Config (but see CustomLayout).
	ID    string
	Value []byte

	hooks    *hooks // nil in a Candidacy that no elector has made, as log is
	log      *slog.Logger
	fitness  *fitness // nil if nothing is checked
	sight    *sight   // nil in a Candidacy that no elector has made
	withdraw func(ctx context.Context, e backend.Entry) error
}

// Begin reports that a stage of the recipe begins. Call what it returns when the
// stage completes.
func (c *Candidacy) Begin(s Stage) (completed func(error)) {
	if c.hooks == nil {
		return func(error) {}
	}
	c.sight.rests()
	end := c.hooks.begin(s, nil)
	return func(err error) {
		c.sight.rests()
		end(err)
	}
}

// Sees reports who leads, and the candidate's place in line, beginning with 1, or 0 where it is not
// known: for Elector.Status. Call it with what a read or a wait has shown, before the wait for its
// change, in the stage in which the candidate waits: it counts until that completes, and is taken to
// be current for as long. It costs nothing, and a campaign may do without.
func (c *Candidacy) Sees(leader Leader, place int) {
	c.sight.sees(leader, place)
	c.sight.waits()
}

// Withdraw removes an entry of the candidate. It works after ctx has ended, too:
// for a short time it waits for the removal to be confirmed; after that the
// session goes on in the background.
func (c *Candidacy) Withdraw(ctx context.Context, e backend.Entry) error {
	return c.withdraw(ctx, e)
}

// Fit tells whether the application says that it can lead (Config.Fit), and why not: nil if it
// can, or if nobody asks. changed is closed when another answer is due.
func (c *Candidacy) Fit() (changed <-chan struct{}, unfit error) {
	if c.fitness == nil {
		return nil, nil
	}
	return c.fitness.now()
}

// Aside reports that the candidate stands aside, for the reason why: it waits on, and others may
// lead before it (Hooks.Aside).
func (c *Candidacy) Aside(why error) {
	if c.hooks != nil {
		c.sight.s.moved()
		c.log.Info("standing aside", "why", why)
		c.hooks.aside(why)
	}
}

// Pause blocks for a random time up to most, for strategies that spread a herd.
func (c *Candidacy) Pause(ctx context.Context, most time.Duration) error {
	if most <= 0 {
		return ctx.Err()
	}
	return sleep(ctx, rand.N(most))
}

// A Claim is what a strategy won: the entry that is the leader's seat, and how to
// hold, publish and release it.
type Claim struct {
	// Entry exists for as long as the term may last: its deletion ends the term.
	Entry backend.Entry
	// Token is the term's fencing token; not 0.
	Token uint64
	// Conditions hold from the claim on, and no longer than Entry exists. Every write of
	// the term carries them.
	Conditions []backend.Condition
	// Encode makes the payload of Entry that publishes value: a JSON object, so that Ask can add
	// a request to it.
	Encode func(value []byte) []byte
	// StillLeads, if set, tells from Entry as it has become whether it still says that
	// this candidate leads: a false answer ends the term, and the entry is removed.
	StillLeads func(backend.Entry) bool
	// MarkLeader asks to have the payload written as soon as the term has begun,
	// because others learn from it.
	MarkLeader bool
	// Renew, if set, blocks until Encode makes another payload of the same value than it did when
	// Campaign returned, or when Renew last returned. The elector then writes it. It returns an
	// error when ctx ends, and only then.
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
