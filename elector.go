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
	// ErrOccupied, any error that is not from package backend); ErrBusy if this elector already campaigns
	// or leads; ErrClosed after Close; and ErrInHook if a hook calls it. If it fails, no entry is left
	// behind that could block the election.
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

// cleanupTimeout bounds how long a call that has failed, or whose ctx has ended, waits for the service to
// confirm that an entry is gone. After that the session continues in the background.
const cleanupTimeout = 2 * time.Second

// cleanup returns a context with that timeout and the values of ctx.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

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

	wg           sync.WaitGroup // monitors, terms and checks, except one that hangs
	observations observations   // for Status
	retryLog     logLimit       // how often the log says that it tries again

	// Locks that a ctx can end the wait for, taken before mu.
	slot     chan struct{}   // held while a campaign runs, and by Close
	checking chan struct{}   // held while Fit.Check runs
	opening  chan struct{}   // held while a session is looked up or opened; guards followed:
	followed <-chan struct{} // closed when the monitor of sess has ended

	mu       sync.Mutex         // taken before that of a seat, or of its fitness; guards the rest
	sess     *backend.Session   // the current one, which may be lost, or nil
	seat     *seat              // the latest term's, which may be over, or nil
	leftover []*backend.Session // earlier ones in which an entry of this elector may exist
	behind   string             // ID of sess, if it may show an older state than an earlier session has shown
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

// end ends a term and a session; either may be nil. The session ends even if a hook that reports the
// term's end panics; the panic continues to the caller.
func end(ctx context.Context, t *seat, s *backend.Session) (errs []error) {
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

// session returns the current session, or opens a new one.
func (e *elector) session(ctx context.Context) (*backend.Session, error) {
	if e.hooks.calling() {
		// The next session waits for the hook that reports this one's end.
		e.mu.Lock()
		s := e.sess
		e.mu.Unlock()
		if s == nil || s.State() == backend.Lost {
			return nil, fmt.Errorf("there is no session: %w", ErrInHook)
		}
		return s, nil
	}
	select {
	case e.opening <- struct{}{}:
		defer func() { <-e.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	old := e.sess
	e.mu.Unlock()
	if old != nil && old.State() != backend.Lost {
		return old, nil
	}
	// It may be Lost because Close is closing it; ctx must not cut that short.
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	standing := false
	if old != nil {
		// Lost is final; this only waits for its goroutines.
		done, cancel := context.WithTimeout(ctx, cleanupTimeout)
		err := old.Close(done)
		cancel()
		standing = errors.Is(err, backend.ErrStanding)
		if err != nil {
			e.log.Debug("lost session not closed cleanly", "session", old.ID(), "err", err)
		}
		// Its Lost is reported before the next one's Live.
		select {
		case <-e.followed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	quiet := e.hooks.Session == nil && !e.log.Enabled(ctx, slog.LevelInfo)
	s, err := e.openSession(ctx)
	if err != nil {
		return nil, err
	}
	// Under the lock, so that Close finds the session or this finds it closed.
	e.mu.Lock()
	closed := e.ctx.Err() != nil
	if !closed {
		e.sess = s
		if old != nil {
			e.behind = s.ID()
		}
		if standing {
			e.leftover = append(e.leftover, old)
		}
		followed := make(chan struct{})
		e.followed = followed
		if quiet {
			close(followed) // nobody needs a monitor
		} else {
			e.wg.Go(func() { defer close(followed); e.monitor(s) })
		}
	}
	e.mu.Unlock()
	if closed {
		done, cancel := cleanup(ctx)
		defer cancel()
		return nil, errors.Join(ErrClosed, s.Close(done))
	}
	return s, nil
}

// openSession opens a session. A server that accepts the connection and then does not answer counts as
// unavailable after a while, so that the user is told.
func (e *elector) openSession(ctx context.Context) (*backend.Session, error) {
	const patience = 10 * time.Second
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := e.cfg.Backend.Open(trying, backend.OpenOptions{TTL: e.cfg.TTL})
	if err != nil {
		if trying.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no session after %v: %w: %w", patience, backend.ErrUnavailable, err)
		}
		return nil, err
	}
	e.log.Debug("session opened", "session", s.ID(), "ttl", s.TTL())
	return s, nil
}

// monitor reports the states of one session to the hook and the log until the session is lost.
func (e *elector) monitor(s *backend.Session) {
	suspended := false
	for state := backend.Live; ; {
		level := slog.LevelDebug
		if state == backend.Suspended || state == backend.Live && suspended {
			level = slog.LevelInfo // the term's end or the next attempt reports the others
		}
		suspended = state == backend.Suspended
		e.log.Log(context.Background(), level, "session "+state.String(), "session", s.ID())
		e.hooks.own.session(s.ID(), state)
		if state == backend.Lost {
			return
		}
		var err error
		if state, err = s.AwaitState(context.Background(), state); err != nil {
			e.log.Error("session cannot be followed", "session", s.ID(), "err", err)
			return // the background context does not end: the backend breaks its contract
		}
	}
}

// clear removes this candidate's entries from sessions that it has given up but that live on because
// others share them. A campaign beside such an entry would wait for itself.
func (e *elector) clear(ctx context.Context) error {
	e.mu.Lock()
	left := e.leftover
	e.leftover = nil
	e.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	var errs []error
	for _, s := range left {
		if err := s.Close(ctx); err != nil {
			errs = append(errs, err)
			e.mu.Lock()
			e.leftover = append(e.leftover, s)
			e.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// giveUp ends the session, and all its entries with it.
func (e *elector) giveUp(s *backend.Session) {
	ctx, cancel := cleanup(context.Background())
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.log.Warn("session not closed cleanly", "session", s.ID(), "err", err)
	}
}
