package elector

import (
	"context"
	"errors"
	"time"

	"github.com/elector-go/elector/backend"
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
			if _, s := e.current(); s != nil {
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
	var retry backoff
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
	seat, _ := e.current()
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
	claim, err := e.stand(ctx, e.candidacy(s, dir, fit, observation))
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
		err = errors.Join(err, e.refound(ctx, s, dir, err))
	}
	if errors.Is(err, backend.ErrUsedUp) { // refound may return that, too
		err = errors.Join(err, e.moveOn(ctx, s, dir, err))
	}
	return err
}

func (e *elector) candidacy(s *backend.Session, dir string, fit *fitness, observation *observation) *Candidacy {
	return &Candidacy{
		Session: e.newSurveyor(s).session(s), Dir: dir, ID: e.id, Value: e.cfg.Value,
		hooks: e.hooks, log: e.log, fitness: fit, observation: observation,
		withdraw: func(ctx context.Context, entry backend.Entry) error { return e.withdraw(ctx, s, entry) },
	}
}

// beginTerm begins the term of a claim. On an error the entry is withdrawn.
func (e *elector) beginTerm(ctx context.Context, s *backend.Session, dir string, claim Claim, fit *fitness) (*seat, error) {
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
func (e *elector) stand(ctx context.Context, c *Candidacy) (claim Claim, err error) {
	ctx, stop := c.fitness.whileFit(ctx)
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
