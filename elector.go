package elector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
)

// An Elector is one candidate in one election. It is safe for concurrent use.
//
// It is an interface so that code which uses one can be tested with a fake (see
// NewTerm), and so that the conformance suite can be run on other implementations
// behind an adapter. New makes the real one.
type Elector interface {
	// Campaign enters the election and blocks until this candidate is elected. ctx
	// bounds the campaign only; the term lives until it ends (Term.Context).
	//
	// It waits, and says so by Hooks.Retry and in the log, while no server can be
	// reached, or somebody stands in the election's directory that takes no more entries
	// (backend.ErrUsedUp) or is gone (backend.ErrNoParent: see Remove), and begins anew
	// after a lost session. While the application is not fit (Config.Fit, Hooks.Aside) it waits,
	// too. It returns an error when ctx
	// ends, when trying again is of no use (backend.ErrDenied, backend.ErrBadKey,
	// backend.ErrTooLarge, ErrStrategyMismatch, ErrOccupied, what is no error of package
	// backend's), with ErrBusy when this elector campaigns or leads already, with
	// ErrClosed after Close, and with ErrInHook when a hook calls it. On an error no
	// entry is left behind that could block the election.
	Campaign(ctx context.Context) (*Term, error)

	// Leader returns who leads; ErrNoLeader if nobody does. The answer is as fresh as
	// what the backend reads: a server of ZooKeeper may be a little behind the others. It is
	// never older than what this elector has told of before, lost sessions or not.
	Leader(ctx context.Context) (Leader, error)

	// Candidates lists the candidates, in order of succession where the strategy
	// has one. unfair and kafka list the leader only: nobody else has an entry there.
	Candidates(ctx context.Context) ([]Candidate, error)

	// Observe yields the leader now, then each change, vacancies included (the zero
	// Leader). Changes that come faster than they are consumed may be skipped, the
	// latest never is. It rides out lost sessions and unreachable servers. It ends
	// after yielding an error: when ctx ends, the elector is closed, or trying
	// again is of no use.
	Observe(ctx context.Context) iter.Seq2[Leader, error]

	// Term returns the term in which this candidate leads now, or nil if it does not lead. It asks
	// nobody, and does not block: a handler of requests can call it for each.
	Term() *Term

	// Status tells what the elector knows at this moment. It asks nobody, and does not block.
	Status() Status

	// Close resigns or withdraws, and lets the session go. A campaign and a term
	// under way end with ErrClosed, and the seat is released even if a lead function
	// still runs. It blocks until the elector's goroutines are gone and the service
	// has confirmed, or ctx ends; with a ctx that has ended before the call, as the one
	// that a signal ends, for up to two seconds. Called by a hook it does nothing, and
	// returns ErrInHook. It may be called several times: while an
	// entry stands in a session that others share (backend.ErrStanding), each call tries
	// again to remove it.
	Close(ctx context.Context) error
}

// A Leader is who leads an election. The zero Leader says that nobody does.
type Leader struct {
	ID    string
	Value []byte
	// Token is the term's fencing token. It rises from term to term.
	Token uint64
	// Seat is the entry in the service that it leads by, as it was read.
	Seat backend.Entry
	// Since is when the leader was elected, by its own clock; zero where the
	// strategy does not record it. It is for people: nothing may depend on it.
	Since time.Time
}

// Vacant tells whether nobody leads.
func (l Leader) Vacant() bool { return l.Token == 0 }

func (l Leader) equal(o Leader) bool {
	return l.ID == o.ID && l.Token == o.Token && string(l.Value) == string(o.Value)
}

// A Candidate is one who stands in an election.
type Candidate struct {
	ID    string
	Value []byte
	// Leads is set for the candidate that is entitled to lead.
	Leads bool
	// Entry is the entry in the service that it stands by, as it was read: Key and Rev tell it
	// from another candidate with the same ID.
	Entry backend.Entry
	// Own is set for the candidate of the elector that lists it: its place in the list is its place
	// in line.
	Own bool
	// Rank is what a strategy compares that ranks its candidates, else nil.
	Rank []int64
	// Designated is set for the candidate that an operator has designated: see Designate.
	Designated bool
}

// cleanupTimeout bounds how long a call that has failed, or whose ctx has ended,
// waits for the service to confirm that an entry is gone. After that the session
// goes on in the background.
const cleanupTimeout = 2 * time.Second

// cleanup returns a context for that, with the values of ctx.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// New makes a candidate. It does not connect: the first call that needs the
// service does. The caller must Close it. All violations of cfg are reported in
// one error, ErrConfig.
func New(cfg Config) (Elector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Value = bytes.Clone(cfg.Value)
	id, foreign, _ := cfg.identify() // Validate has looked at the error
	e := &elector{
		cfg: cfg, id: id, foreign: foreign, hooks: newHooks(cfg.Hooks),
		slot: make(chan struct{}, 1), opening: make(chan struct{}, 1), checking: make(chan struct{}, 1),
	}
	if err := electors.add(e); err != nil {
		return nil, err
	}
	e.log = asynclog.New(cfg.Logger).With("election", cfg.Election, "candidate", cfg.ID, "strategy", cfg.Strategy.Name())
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.sights.turn(RoleIdle)
	return e, nil
}

// elector is the Elector that New makes.
type elector struct {
	cfg     Config
	id      string // as the election knows it
	foreign bool   // the strategy has a CustomLayout
	hooks   *hooks
	log     *slog.Logger
	ctx     context.Context // ends with ErrClosed when Close begins
	cancel  context.CancelCauseFunc

	slot    chan struct{}  // held while a campaign runs
	opening chan struct{}  // held while a session is looked up or opened
	wg      sync.WaitGroup // monitors, terms and checks, but for one that hangs

	checking chan struct{} // held while Fit.Check runs

	sights sights // for Status
	often  often  // how often the log says that it tries again

	mu   sync.Mutex
	sess *backend.Session // the current one, or nil
	seat *seat            // the latest term's, or nil

	// standing are sessions before sess in which an entry of this elector may stand.
	standing []*backend.Session

	behind   string          // ID of sess, if it may show less than one before it has shown
	followed <-chan struct{} // closed when the monitor of sess has ended; guarded by opening
}

func (e *elector) Term() *Term {
	e.mu.Lock()
	seat := e.seat
	e.mu.Unlock()
	if seat == nil || !seat.valid() {
		return nil
	}
	return seat.term
}

// bind returns ctx, which also ends when the elector closes, and then with
// ErrClosed for its cause.
func (e *elector) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })
	return bound, func() { stop(); cancel(nil) }
}

// fail wraps the error of an exported call, and tells a closed elector and an
// ended ctx from what they made fail.
func (e *elector) fail(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case e.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, backend.ErrStanding):
		err = ended(ctx)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ended(ctx), err)
	}
	return fmt.Errorf("elector: %s %s: %w", what, e.cfg.Election, err)
}

// ended returns the error of a ctx that has ended, with its cause if it has one.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

func (e *elector) Close(ctx context.Context) error {
	if e.hooks.calling() {
		return fmt.Errorf("elector: close %s: %w", e.cfg.Election, ErrInHook)
	}
	e.cancel(ErrClosed)
	e.sights.turn(RoleClosed)
	electors.remove(e)
	if ctx.Err() != nil {
		// A process that is told to stop has this in its defer. It still says goodbye: the
		// next leader would otherwise come a session timeout later.
		late, cancel := cleanup(ctx)
		defer cancel()
		ctx = late
	}

	var errs []error
	select {
	case e.slot <- struct{}{}: // the campaign has withdrawn, and no other begins
		defer func() { <-e.slot }()
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("campaign has not ended: %w", ctx.Err()))
	}
	e.mu.Lock()
	seat, sess := e.seat, e.sess
	e.mu.Unlock()
	errs = append(errs, end(ctx, seat, sess)...)
	errs = append(errs, e.clear(ctx))
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		if e.hooks.running.Load() > 0 {
			errs = append(errs, fmt.Errorf("a hook has not returned: %w", ctx.Err()))
		} else if errors.Join(errs...) == nil { // otherwise they wait for what these say
			errs = append(errs, fmt.Errorf("the elector's goroutines have not ended: %w", ctx.Err()))
		}
	}
	asynclog.Flush(ctx, e.log, asynclog.LastWords)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("elector: close %s: %w", e.cfg.Election, err)
	}
	return nil
}

// end ends a term and a session, so far as there are. The session ends though a hook that is told
// of the term's end panics, which goes on to the caller.
func end(ctx context.Context, t *seat, s *backend.Session) (errs []error) {
	if s != nil {
		defer func() { errs = append(errs, s.Close(ctx)) }()
	}
	if t != nil {
		errs = append(errs, t.resign(ctx, ErrClosed))
	}
	return errs
}

// electors are the process's open ones. It exists for one purpose: New can tell
// that an ID is taken, which within one process is always a mistake.
var electors registry

type registry struct {
	mu  sync.Mutex
	ids map[identity]*elector
}

type identity struct {
	backend      backend.Backend
	election, id string
}

func (e *elector) identity() identity {
	return identity{e.cfg.Backend, e.cfg.Election, e.id}
}

func (r *registry) add(e *elector) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[e.identity()] != nil {
		return fmt.Errorf("elector: Config.ID %q is a duplicate: an open elector of this process has it in election %s on this backend; close that one, or take another ID: %w",
			e.id, e.cfg.Election, ErrConfig)
	}
	if r.ids == nil {
		r.ids = make(map[identity]*elector)
	}
	r.ids[e.identity()] = e
	return nil
}

func (r *registry) remove(e *elector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[e.identity()] == e { // it may have been closed before, and the ID taken by another
		delete(r.ids, e.identity())
	}
}
