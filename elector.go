package elector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy"
)

// An Elector is one candidate in one election. It is safe for concurrent use.
//
// It is an interface so that code that uses it can be tested with a fake (see NewTerm), and so that the
// conformance suite can test other implementations through an adapter. New returns the real one.
type Elector interface {
	// Campaign enters the election and blocks until this candidate is elected. ctx
	// bounds the campaign only; the term lives until it ends (Term.Context).
	//
	// It waits while no server can be reached, and while somebody still stands in an old directory of the
	// election that takes no more entries (backend.ErrUsedUp) or is gone (backend.ErrNoParent: it was removed);
	// it reports this to Hooks.Retry and the log. It also waits while the application is unfit (Config.Fit,
	// Hooks.Aside). After a lost session it starts again. It returns an error when ctx ends; when a retry
	// is of no use (backend.ErrDenied, backend.ErrBadKey, backend.ErrTooLarge, ErrStrategyMismatch,
	// ErrOccupied before it has stood, any other error that is not from package backend); ErrBusy if this
	// elector already campaigns or leads; ErrClosed after Close; and ErrInHook if a hook calls it. If it fails, no
	// entry is left behind that could block the election.
	Campaign(ctx context.Context) (*Term, error)

	// Leader returns who leads; ErrNoLeader if nobody does. The answer is as fresh as
	// the backend's reads: a ZooKeeper server may be a little behind the others. It is never
	// older than what this elector has returned before, even in an earlier session.
	Leader(ctx context.Context) (Leader, error)

	// Candidates lists the candidates, in order of succession if the strategy has one.
	// unfair and kafka list only the leader: nobody else has an entry there.
	Candidates(ctx context.Context) ([]Candidate, error)

	// Observe yields the leader now, then each change, vacancies included (the zero Leader). Changes that
	// come faster than they are consumed may be skipped, but the latest never is. It continues after lost
	// sessions and unreachable servers. It ends after yielding an error: when ctx ends, the elector is
	// closed, or a retry is of no use.
	Observe(ctx context.Context) iter.Seq2[Leader, error]

	// Term returns the term in which this candidate leads now, or nil if it does not lead. It makes
	// no request and does not block: a server can call it for each request that it handles.
	Term() *Term

	// Status returns what the elector knows at this moment. It makes no request and does not block.
	Status() Status

	// Close resigns or withdraws, and closes the session. A running campaign or term ends with ErrClosed,
	// and the seat is released even if a lead function still runs. Close blocks until the elector's
	// goroutines have ended and the service has confirmed, or ctx ends. If ctx has ended before the call,
	// for example by a signal, it blocks for up to two seconds. If a hook calls it, it does nothing and
	// returns ErrInHook. It may be called several times: while an entry is left in a session that others
	// share (backend.ErrStanding), each call tries again to remove it.
	Close(ctx context.Context) error
}

// A Leader describes who leads an election: its ID, Value, Token, Seat and Since. The zero Leader means that
// nobody does (Vacant).
type Leader = strategy.Leader

// A Candidate describes a candidate that stands in an election: its ID, Value, Entry, Rank, and whether it
// Leads, is the elector's Own, or is Designated by an operator.
type Candidate = strategy.Candidate

// New returns an Elector. It does not connect: the first call that needs the service does. The caller must
// Close the Elector. New reports all violations of cfg in one error, ErrConfig.
func New(cfg Config) (Elector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Value = bytes.Clone(cfg.Value)
	id, _, _ := cfg.identify() // Validate has checked the error
	e := &elector{
		cfg: cfg, id: id, election: election.New(cfg.Election, cfg.Strategy), hooks: newHooks(cfg.Hooks),
		slot: make(chan struct{}, 1), opening: make(chan struct{}, 1), checking: make(chan struct{}, 1),
	}
	e.election.Waits = e.reportWait
	if err := electors.add(e); err != nil {
		return nil, err
	}
	e.log = asynclog.New(cfg.Logger).With("election", cfg.Election, "candidate", cfg.ID, "strategy", cfg.Strategy.Name())
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.observations.setRole(RoleIdle)
	return e, nil
}

// elector is the Elector that New makes.
type elector struct {
	cfg      Config
	id       string // as the election knows it
	election *election.Election
	hooks    *hooks
	log      *slog.Logger
	ctx      context.Context // ends with ErrClosed when Close begins
	cancel   context.CancelCauseFunc

	wg           sync.WaitGroup // monitors, terms and polls of Fit, but no call of Check: it may hang
	observations observations   // for Status
	retryLog     asynclog.Limit // how often the log says that it tries again

	// Locks that a ctx can end the wait for, taken before mu.
	slot      chan struct{}   // held while a campaign runs, and by Close
	checking  chan struct{}   // held while Fit.Check runs
	opening   chan struct{}   // held while a session is looked up or opened; guards monitored:
	monitored <-chan struct{} // closed when the monitor of sess has ended

	mu       sync.Mutex         // taken before a tenure's and its fitness's; guards the rest
	sess     *backend.Session   // the current one, which may be lost, or nil
	tenure   *tenure            // the latest term's, which may be over, or nil
	leftover []*backend.Session // earlier ones in which an entry of this elector may exist
	behind   string             // ID of sess, if it may show an older state than an earlier session has shown
}

// current returns the latest tenure and the current session. Each is nil if there is none.
func (e *elector) current() (*tenure, *backend.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tenure, e.sess
}

func (e *elector) Term() *Term {
	tenure, _ := e.current()
	if tenure == nil || !tenure.valid() {
		return nil
	}
	return tenure.term
}

// takeSlot takes the elector's slot for one campaign: an elector is one candidate. It also waits until the last
// term is wound up, because its Ended comes before the next Elected.
func (e *elector) takeSlot(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.ctx.Err() != nil { // bind ends ctx only a moment later
		return ErrClosed
	}
	select {
	case e.slot <- struct{}{}:
	default:
		return ErrBusy
	}
	last, _ := e.current()
	if last == nil {
		return nil
	}
	if last.valid() {
		<-e.slot
		return ErrBusy
	}
	select {
	case <-last.done:
		return nil
	case <-ctx.Done():
		<-e.slot
		return ctx.Err()
	}
}

// bind returns a ctx that also ends when the elector closes, and then with ErrClosed as its cause.
func (e *elector) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })
	return bound, func() { stop(); cancel(nil) }
}

// fail wraps the error of an exported call. If the elector is closed or ctx has ended, the error says so.
func (e *elector) fail(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case e.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, backend.ErrStanding):
		err = delay.Ended(ctx)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", delay.Ended(ctx), err)
	}
	return fmt.Errorf("elector: %s %s: %w", what, e.cfg.Election, err)
}

func (e *elector) Close(ctx context.Context) error {
	if e.hooks.calling() {
		return fmt.Errorf("elector: close %s: %w", e.cfg.Election, ErrInHook)
	}
	e.cancel(ErrClosed)
	e.observations.setRole(RoleClosed)
	electors.remove(e)
	if ctx.Err() != nil {
		// A deferred Close of a process that stops. It still releases the seat: otherwise
		// the next leader would come a session timeout later.
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
	tenure, sess := e.current()
	errs = append(errs, resignAndClose(ctx, tenure, sess)...)
	errs = append(errs, e.clear(ctx))
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		if e.hooks.running.Load() > 0 {
			errs = append(errs, fmt.Errorf("a hook has not returned: %w", ctx.Err()))
		} else if errors.Join(errs...) == nil { // otherwise errs says what they wait for
			errs = append(errs, fmt.Errorf("the elector's goroutines have not ended: %w", ctx.Err()))
		}
	}
	asynclog.Flush(ctx, e.log, asynclog.LastWords)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("elector: close %s: %w", e.cfg.Election, err)
	}
	return nil
}

// resignAndClose ends a term and a session; either may be nil. The session ends even if the hook of StageStop
// panics; the panic continues to the caller.
func resignAndClose(ctx context.Context, t *tenure, s *backend.Session) (errs []error) {
	if s != nil {
		defer func() { errs = append(errs, s.Close(ctx)) }()
	}
	if t != nil {
		errs = append(errs, t.resign(ctx, ErrClosed))
	}
	return errs
}

// electors holds the process's open electors, only so that New can detect that an
// ID is taken, which is always a mistake within one process.
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
