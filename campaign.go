package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

func (e *elector) Campaign(ctx context.Context) (*Term, error) {
	if e.hooks.calling() {
		return nil, e.fail(ctx, "campaign", ErrInHook)
	}
	caller := ctx
	ctx, cancel := e.bind(ctx)
	defer cancel()
	if err := e.enlist(ctx); err != nil {
		return nil, e.fail(caller, "campaign", err)
	}
	defer func() { <-e.slot }()
	panicked := true
	defer func() {
		if panicked {
			e.mu.Lock()
			s := e.sess
			e.mu.Unlock()
			if s != nil {
				e.giveUp(s) // a hook did; the panic goes on to the caller
			}
		}
	}()

	var retry backoff
	for stood := false; ; {
		var entered time.Time
		seat, err := e.attempt(ctx, &entered)
		if err == nil {
			panicked = false
			return seat.term, nil
		}
		e.hooks.begin(StageFailed)(err)
		stood = stood || !entered.IsZero()
		passing := temporary(err) || stood && errors.Is(err, ErrOccupied)
		if ctx.Err() == nil && passing && e.backOff(ctx, &retry, entered, err) == nil {
			continue
		}
		panicked = false
		return nil, e.fail(caller, "campaign", err)
	}
}

// giveUp ends the session, and with it whatever entries there may be.
func (e *elector) giveUp(s *backend.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.log.Warn("session not closed cleanly", "session", s.ID(), "err", err)
	}
}

// enlist takes the elector's slot for one campaign.
func (e *elector) enlist(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case e.slot <- struct{}{}:
	default:
		return ErrBusy
	}
	e.mu.Lock()
	seat := e.seat
	e.mu.Unlock()
	if seat == nil {
		return nil
	}
	if seat.valid() {
		<-e.slot
		return ErrBusy
	}
	// A process that was paused knows this before its timers have run.
	seat.cancel(ErrSessionLost)
	// The last term is over. Its Ended must be reported before the next Elected.
	select {
	case <-seat.done:
		return nil
	case <-ctx.Done():
		<-e.slot
		return ctx.Err()
	}
}

// attempt campaigns once, in one session. entered is set when it gets that far.
func (e *elector) attempt(ctx context.Context, entered *time.Time) (*seat, error) {
	started := e.hooks.begin(StageStart)
	s, dir, err := e.enter(ctx)
	started(err)
	if err != nil {
		return nil, err
	}
	*entered = time.Now()
	claim, err := e.cfg.Strategy.Campaign(ctx, &Candidacy{
		Session: e.newLookout(s).session(s), Dir: dir, ID: e.id, Value: e.cfg.Value,
		hooks:    e.hooks,
		withdraw: func(ctx context.Context, entry backend.Entry) error { return e.withdraw(ctx, s, entry) },
	})
	if err != nil {
		if errors.Is(err, backend.ErrNoParent) {
			// The election, or only its directory, was deleted. A new directory
			// needs a new name, lest old guards hit entries in it.
			err = errors.Join(err, e.refound(ctx, s, dir, err))
		}
		if errors.Is(err, backend.ErrUsedUp) {
			err = errors.Join(err, e.moveOn(ctx, s, dir, err))
		}
		return nil, err
	}
	// A win that came in with the session's last breath is none.
	if ctx.Err() != nil || s.State() == backend.Lost || !time.Now().Before(s.Deadline()) {
		err := errors.Join(ctx.Err(), e.withdraw(ctx, s, claim.Entry))
		return nil, errors.Join(err, ErrSessionLost)
	}
	elected := e.hooks.begin(StageElected)
	seat, err := e.seated(ctx, s, claim)
	if err != nil {
		err = errors.Join(err, e.withdraw(ctx, s, claim.Entry))
	}
	elected(err)
	return seat, err
}

// withdraw removes an entry, and waits for the confirmation a short time even if
// ctx has ended.
func (e *elector) withdraw(ctx context.Context, s *backend.Session, entry backend.Entry) error {
	stopped := e.hooks.begin(StageStop)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := e.drop(ctx, s, entry)
	stopped(err)
	return err
}

// drop removes an entry. While that cannot be confirmed the session goes on with it in
// the background. Where the service refuses it, such as for want of rights, the entry
// goes with the session. One that is shared lives on: then the error is ErrStanding.
func (e *elector) drop(ctx context.Context, s *backend.Session, entry backend.Entry) error {
	err := s.Discard(ctx, entry)
	switch {
	case err == nil, errors.Is(err, ErrSessionLost):
		return nil
	case ctx.Err() != nil:
		return err
	}
	e.log.Error("entry cannot be removed; session given up", "entry", entry.Key, "err", err)
	if closed := s.Close(ctx); closed != nil {
		return errors.Join(err, closed)
	}
	return nil
}

// clear sees to it that nothing of this candidate stands in a session that it has given
// up and that lives on, as others share it. A campaign beside such an entry would wait
// for itself.
func (e *elector) clear(ctx context.Context) error {
	e.mu.Lock()
	left := e.standing
	e.standing = nil
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
			e.standing = append(e.standing, s)
			e.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// enter returns a session and the election's directory. It founds the election if
// there is none.
func (e *elector) enter(ctx context.Context) (*backend.Session, string, error) {
	s, err := e.session(ctx)
	if err == nil {
		err = e.clear(ctx)
	}
	if err != nil {
		return nil, "", err
	}
	// Whoever is overtaken finds the record of another at the next look. Where that does not
	// help, something else is at the path, and the campaign backs off.
	for look := 1; ; look++ {
		dir, record, err := e.find(ctx, s)
		if err == nil && dir == "" {
			dir, err = e.found(ctx, s, record)
			if overtaken(err) && look < 3 {
				continue
			}
		}
		return s, dir, err
	}
}

// find returns the election's directory, "" if it has not been founded, and the
// entry at its path, which holds its record. It fails where somebody else's candidates
// stand.
func (e *elector) find(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	if e.foreign {
		return e.cfg.Election, backend.Entry{}, nil
	}
	entry, strangers, err := s.Survey(ctx, e.cfg.Election, e.known)
	if err == nil {
		dir, err = e.recorded(entry)
	}
	if err == nil {
		err = occupied(strangers)
	}
	if err != nil {
		return "", entry, err
	}
	return dir, entry, nil
}

// read is find without a look for strangers, who do not keep anybody from removing the election.
func (e *elector) read(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	entry, err = s.Get(ctx, e.cfg.Election)
	if errors.Is(err, backend.ErrNoEntry) {
		return "", backend.Entry{Key: e.cfg.Election}, nil
	}
	if err == nil {
		dir, err = e.recorded(entry)
	}
	return dir, entry, err
}

// recorded returns the directory that the entry at the election's path names, "" if it
// has no record.
func (e *elector) recorded(entry backend.Entry) (dir string, err error) {
	if entry.Session != "" {
		return "", fmt.Errorf("%w: its path is somebody's ephemeral entry", ErrStrategyMismatch)
	}
	if len(entry.Value) == 0 {
		// An empty entry may be there as the parent of others.
		return "", nil
	}
	record, err := layout.DecodeRecord(entry.Value)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStrategyMismatch, err)
	}
	if name := e.cfg.Strategy.Name(); record.Strategy != name {
		return "", fmt.Errorf("%w: it was founded with %.100q, not with %q", ErrStrategyMismatch, record.Strategy, name)
	}
	return e.dir(record), nil
}

func (e *elector) dir(r layout.Record) string { return e.cfg.Election + "/" + r.Dir }

// found writes the record over what the entry holds, and makes the directory, in
// one step; see overtaken.
func (e *elector) found(ctx context.Context, s *backend.Session, entry backend.Entry) (dir string, err error) {
	record := layout.NewRecord(e.cfg.Strategy.Name())
	var guards []backend.Condition
	if entry.Exists() {
		// Versions begin anew with each incarnation: without the guard, the record
		// of an election that was deleted and founded again could be overwritten.
		guards = append(guards, backend.IfExists(entry))
	}
	_, err = s.Commit(ctx, guards,
		backend.CompareAndSet(e.cfg.Election, record.Encode(), entry.Version),
		backend.CompareAndSet(e.dir(record), nil, 0))
	return e.dir(record), err
}

// overtaken tells whether another candidate was faster to found the election.
func overtaken(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict)
}

// session returns the current session, or opens one.
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
	// It may be Lost because Close is closing it, which ctx must not cut short.
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	standing := false
	if old != nil {
		// Lost is final; only its goroutines are still to be waited for.
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
			e.standing = append(e.standing, old)
		}
		followed := make(chan struct{})
		e.followed = followed
		if quiet {
			close(followed) // a goroutine would wait for the sake of nobody
		} else {
			e.wg.Go(func() { defer close(followed); e.monitor(s) })
		}
	}
	e.mu.Unlock()
	if closed {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return nil, errors.Join(ErrClosed, s.Close(done))
	}
	return s, nil
}

// openSession opens a session. A server that takes the connection and then says
// nothing counts as unavailable after a while, so that the user gets to know.
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

// catchUp has a new session read what was there when it was opened, at least. Its server may be
// behind, but a commit is decided by what there is, though it be refused.
func (e *elector) catchUp(ctx context.Context, s *backend.Session) error {
	_, err := s.Commit(ctx, []backend.Condition{backend.IfExists(backend.Unknown(e.cfg.Election))})
	if errors.Is(err, backend.ErrCondition) {
		return nil // no such entry has ever been
	}
	return err
}

// monitor reports the states of one session, to the hook and the log, until it is lost.
func (e *elector) monitor(s *backend.Session) {
	suspended := false
	for state := backend.Live; ; {
		level := slog.LevelDebug
		if state == backend.Suspended || state == backend.Live && suspended {
			level = slog.LevelInfo // of the others the term's end tells, or the next attempt
		}
		suspended = state == backend.Suspended
		e.log.Log(context.Background(), level, "session "+state.String(), "session", s.ID())
		e.hooks.session(state)
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

// temporary tells whether a campaign that failed with err had better try again.
func temporary(err error) bool {
	for _, final := range []error{backend.ErrDenied, backend.ErrBadKey, ErrStrategyMismatch} {
		if errors.Is(err, final) {
			return false
		}
	}
	for _, passing := range []error{
		backend.ErrUnavailable, backend.ErrSessionLost, backend.ErrNoParent, backend.ErrNoEntry, backend.ErrUsedUp,
		backend.ErrExists, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate, backend.ErrStanding,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// backOff waits before the next attempt. entered is when the last one got in touch
// with the election, if it did: one that lasted is not held against the next.
func (e *elector) backOff(ctx context.Context, b *backoff, entered time.Time, why error) error {
	lo, hi := e.cfg.retry()
	if !entered.IsZero() && time.Since(entered) > hi {
		b.attempt = 0
	}
	wait := b.next(lo, hi)
	e.log.Warn("trying again", "attempt", b.attempt, "wait", wait, "err", why)
	e.hooks.retry(why, b.attempt, wait)
	return sleep(ctx, wait)
}

// backoff is an exponential backoff with full jitter over its upper half.
type backoff struct{ attempt int }

func (b *backoff) next(lo, hi time.Duration) time.Duration {
	d := hi
	if b.attempt < 30 && lo<<b.attempt < hi && lo<<b.attempt > 0 {
		d = lo << b.attempt
	}
	b.attempt++
	return d/2 + rand.N(d/2+1)
}
