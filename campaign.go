package elector

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/strategy"
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
	e.observations.setRole(RoleEntering)
	defer e.observations.setRole(RoleIdle) // after a win, Status goes by the term
	panicked := true
	defer func() {
		if panicked {
			e.mu.Lock()
			s := e.sess
			e.mu.Unlock()
			if s != nil {
				e.giveUp(s) // a hook panicked; the panic continues to the caller
			}
		}
	}()

	e.hooks.campaign(CampaignEvent{Context: caller})
	ctx, standby := e.startStandby(caller, ctx)
	won := false
	fit := e.checks(ctx)
	if fit != nil {
		defer func() {
			if !won { // otherwise they continue until the term ends
				fit.end()
			}
		}()
	}
	var retry delay.Backoff
	for stood := false; ; {
		var entered time.Time
		seat, err := e.attempt(ctx, fit, &entered)
		if err == nil {
			e.hooks.campaign(CampaignEvent{Context: caller, Completed: true, Term: seat.term})
			panicked, won = false, true
			return seat.term, nil
		}
		e.observations.setRole(RoleEntering)
		e.noteError(ctx, err)
		e.hooks.begin(StageFailed, nil)(err)
		if ctx.Err() == nil && fit != nil && !fit.unfitStands && errors.Is(err, ErrUnfit) {
			continue // the next attempt waits until it is fit
		}
		stood = stood || !entered.IsZero()
		passing := temporary(err) || stood && errors.Is(err, ErrOccupied)
		if ctx.Err() == nil && passing && e.backOff(ctx, &retry, entered, RetryEvent{What: WorkCampaign, Err: err}) == nil {
			continue
		}
		if failed := standby.failure(); failed != nil {
			err = failed // which has ended ctx
			e.noteError(caller, err)
		}
		err = e.fail(caller, "campaign", err)
		e.hooks.campaign(CampaignEvent{Context: caller, Completed: true, Err: err})
		panicked = false
		return nil, err
	}
}

// enlist takes the elector's slot for one campaign. A campaign that waits here for the end of the last term is
// not reported yet.
func (e *elector) enlist(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.ctx.Err() != nil { // which ends ctx a moment later
		return ErrClosed
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
	// The last term is over. Its Ended must be reported before the next Elected.
	select {
	case <-seat.done:
		return nil
	case <-ctx.Done():
		<-e.slot
		return ctx.Err()
	}
}

// attempt campaigns once, in one session. It sets entered when it has entered the election.
func (e *elector) attempt(ctx context.Context, fit *fitness, entered *time.Time) (*seat, error) {
	started := e.hooks.begin(StageStart, nil)
	s, dir, err := e.enter(ctx, fit)
	started(err)
	if err != nil {
		return nil, err
	}
	*entered = time.Now()
	e.observations.setRole(RoleStanding)
	observation := e.observations.follow(s)
	defer observation.end()
	claim, err := e.stand(ctx, fit, e.candidacy(s, dir, fit, observation))
	if err != nil {
		e.observations.setRole(RoleEntering) // nothing of it stands, and repair may wait for long
		return nil, e.repair(ctx, s, dir, err)
	}
	return e.beginTerm(ctx, s, dir, claim, fit)
}

// repair makes sure that the next attempt finds an election, if the last one failed because there was none. It
// returns err in any case.
func (e *elector) repair(ctx context.Context, s *backend.Session, dir string, err error) error {
	if errors.Is(err, backend.ErrNoParent) {
		// The election, or only its directory, was deleted. A new directory
		// needs a new name, so that no old guard matches entries in it.
		err = errors.Join(err, e.election.Refound(ctx, s, dir, err))
	}
	if errors.Is(err, backend.ErrUsedUp) { // Refound may return that, too
		err = errors.Join(err, e.election.MoveOn(ctx, s, dir, err))
	}
	return err
}

func (e *elector) candidacy(s *backend.Session, dir string, fit *fitness, seen *observation) *strategy.Candidacy {
	host := strategy.Host{
		Begin: func(stage Stage) func(error) {
			seen.rests()
			completed := e.hooks.begin(stage, nil)
			return func(err error) {
				seen.rests()
				completed(err)
			}
		},
		Sees: func(leader Leader, place int) {
			seen.sees(leader, place)
			seen.waits()
		},
		Withdraw: func(ctx context.Context, entry backend.Entry) error { return e.withdraw(ctx, s, entry) },
		Aside: func(why error) {
			e.observations.placeChanged()
			e.log.Info("standing aside", "why", why)
			e.hooks.aside(why)
		},
	}
	if fit != nil {
		host.Fit = fit.now
	}
	return &strategy.Candidacy{Session: e.newSurveyor(s).session(s), Dir: dir, ID: e.id, Value: e.cfg.Value, Host: host}
}

// beginTerm begins the term of a claim. On an error the entry is withdrawn.
func (e *elector) beginTerm(ctx context.Context, s *backend.Session, dir string, claim strategy.Claim, fit *fitness) (*seat, error) {
	// A win that arrives as the session ends does not count.
	if ctx.Err() != nil || s.State() == backend.Lost || !time.Now().Before(s.Deadline()) {
		err := errors.Join(ctx.Err(), e.withdraw(ctx, s, claim.Entry))
		return nil, errors.Join(err, ErrSessionLost)
	}
	elected := e.hooks.begin(StageElected, nil)
	seat, err := e.seated(ctx, s, dir, claim, fit)
	if err != nil {
		err = errors.Join(err, e.withdraw(ctx, s, claim.Entry))
	}
	elected(err)
	return seat, err
}

// stand runs the strategy's campaign for as long as the application is fit.
func (e *elector) stand(ctx context.Context, fit *fitness, c *strategy.Candidacy) (claim strategy.Claim, err error) {
	ctx, stop := fit.whileFit(ctx)
	defer stop()
	claim, err = e.cfg.Strategy.Campaign(ctx, c)
	return claim, whyUnfit(ctx, err)
}

// whyUnfit adds the reason to an error that results from the application being unfit.
//
//go:noinline
func whyUnfit(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrUnfit) {
		return errors.Join(cause, unlessCancelled(err))
	}
	return err
}

// withdraw removes a candidate's entry. It waits for the confirmation, for cleanupTimeout at most,
// even if ctx has ended.
func (e *elector) withdraw(ctx context.Context, s *backend.Session, entry backend.Entry) error {
	return e.hooks.stop(nil, func() error {
		ctx, cancel := cleanup(ctx) // busy after the hook has returned, which may take longer
		defer cancel()
		return e.discard(ctx, s, entry)
	})
}

// discard removes an entry of a session. If ctx ends before the service confirms the removal, the
// session continues it in the background. If the service refuses it, such as for missing rights,
// discard closes the session, and the entry with it. A shared session lives on: the error is ErrStanding.
func (e *elector) discard(ctx context.Context, s *backend.Session, entry backend.Entry) error {
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

// temporary reports whether a campaign that failed with err should try again.
func temporary(err error) bool {
	for _, final := range []error{backend.ErrDenied, backend.ErrBadKey, ErrStrategyMismatch} {
		if errors.Is(err, final) {
			return false
		}
	}
	for _, passing := range []error{
		backend.ErrUnavailable, backend.ErrSessionLost, backend.ErrNoParent, backend.ErrNoEntry, backend.ErrUsedUp,
		backend.ErrExists, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate, backend.ErrStanding,
		ErrUnfit,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// backOff waits before the next attempt. entered is when the last one entered the
// election, or zero: an attempt that lasted does not lengthen the wait before the next.
func (e *elector) backOff(ctx context.Context, b *delay.Backoff, entered time.Time, r RetryEvent) error {
	lo, hi := e.cfg.retry()
	if !entered.IsZero() && time.Since(entered) > hi {
		b.Attempt = 0
	}
	r.Wait = b.Next(lo, hi)
	r.Attempt = b.Attempt
	e.logRetry(r)
	e.noteError(ctx, r.Err)
	defer e.observations.retries(b, r.Wait)()
	hooks := e.hooks
	if r.What == WorkPublish {
		hooks = hooks.own
	}
	hooks.retry(r)
	return delay.Sleep(ctx, r.Wait)
}

// logRetry logs a retry at Warn, but only some of many: a service that is down for a day would fill
// the log. It logs the others at Debug.
func (e *elector) logRetry(r RetryEvent) {
	level, attrs := slog.LevelDebug, []any{"what", r.What.String(), "attempt", r.Attempt, "wait", r.Wait, "err", r.Err}
	if leftOut, allowed := e.retryLog.allow(time.Now()); allowed {
		level = slog.LevelWarn
		if leftOut > 0 {
			attrs = append(attrs, "leftOut", leftOut)
		}
	}
	if r.Term != nil {
		attrs = append(attrs, "token", r.Term.Token())
	}
	e.log.Log(context.Background(), level, "trying again", attrs...)
}

// A logLimit limits how often something is logged: ten times, and then once a minute. Each minute without
// a message gives one of the ten back.
type logLimit struct {
	mu      sync.Mutex
	spent   int       // how many of the ten are used
	since   time.Time // from when on minutes give back
	leftOut int
}

// allow reports whether it may be logged now, and how many messages were left out before.
func (o *logLimit) allow(now time.Time) (leftOut int, allowed bool) {
	const most, each = 10, time.Minute
	o.mu.Lock()
	defer o.mu.Unlock()
	if back := int(now.Sub(o.since) / each); o.spent > 0 && back > 0 {
		o.spent = max(0, o.spent-back)
		o.since = o.since.Add(time.Duration(back) * each)
	}
	if o.spent == 0 {
		o.since = now
	}
	if o.spent == most {
		o.leftOut++
		return 0, false
	}
	o.spent++
	leftOut, o.leftOut = o.leftOut, 0
	return leftOut, true
}
