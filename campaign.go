package elector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/strategy"
)

// A candidate goes through six states from a call of Campaign to the end of its term:
//
//	                                                              Role          Stages
//	open    it gets a session, and waits until the app is fit     entering      start
//	enrol   it finds the election, or founds it                   entering      start
//	wait    it stands in the election until its strategy wins     standing      offer, determine, ready
//	take    it makes the win a term                               standing      elected
//	hold    it leads, and watches its seat                        leading
//	windUp  it reports the end of its term                        leaving
//
// This file has a function for each, in this order. An attempt goes from open to take, on the goroutine that
// called Campaign. If one of these fails, the attempt has removed its entry, or its session goes on to remove
// it, and the next attempt begins with open. It has the same session, unless that is lost. After take Campaign
// returns the term, and a goroutine of the term's own goes on with hold and windUp. The resignation (stage
// stop), on the goroutine of its caller, makes hold go on to windUp: see the end of session.go.

func (e *elector) Campaign(ctx context.Context) (*Term, error) {
	if e.hooks.calling() {
		return nil, e.fail(ctx, "campaign", ErrInHook)
	}
	bound, cancel := e.bind(ctx)
	defer cancel()
	if err := e.takeSlot(bound); err != nil {
		return nil, e.fail(ctx, "campaign", err)
	}
	defer func() { <-e.slot }()
	e.observations.setRole(RoleEntering)
	defer e.observations.setRole(RoleIdle) // after a win, Status goes by the term
	completed := false
	defer func() {
		if _, s := e.current(); !completed && s != nil {
			e.giveUp(s) // a hook has panicked, or ended the goroutine
		}
	}()

	e.hooks.campaign(CampaignEvent{Context: ctx})
	term, err := e.win(ctx, bound)
	e.hooks.campaign(CampaignEvent{Context: ctx, Completed: true, Term: term, Err: err})
	completed = true
	return term, err
}

// win makes attempts until one wins, or another is of no use. caller is the ctx that Campaign got; ctx also ends
// when the elector closes.
func (e *elector) win(caller, ctx context.Context) (*Term, error) {
	ctx, standby := e.startStandby(caller, ctx)
	fit := e.checks(ctx)
	defer fit.endUnlessWon()
	var retry delay.Backoff
	for stood := false; ; {
		a := attempt{e: e, fit: fit}
		err := a.run(ctx)
		if err == nil {
			return a.tenure.term, nil
		}
		e.observations.setRole(RoleEntering)
		e.noteError(ctx, err)
		e.hooks.begin(StageFailed, nil)(err)
		if ctx.Err() == nil && fit.stoodAside(err) {
			continue // the next attempt waits until it is fit
		}
		stood = stood || !a.reached.IsZero()
		// Strangers are final only for a campaign that has not stood yet: see ErrOccupied.
		passing := temporary(err) || stood && errors.Is(err, ErrOccupied)
		if ctx.Err() == nil && passing && e.backOff(ctx, &retry, a.reached, RetryEvent{What: WorkCampaign, Err: err}) == nil {
			continue
		}
		if failed := standby.failure(); failed != nil {
			err = failed // which has ended ctx
			e.noteError(caller, err)
		}
		return nil, e.fail(caller, "campaign", err)
	}
}

// An attempt goes from open to take once, in one session.
type attempt struct {
	e   *elector
	fit *fitness // nil if there is no check

	session *backend.Session // from open on
	dir     string           // the election's directory, from enrol on
	reached time.Time        // when it began to wait; zero before that
	claim   strategy.Claim   // the win
	tenure  *tenure          // the term
}

func (a *attempt) run(ctx context.Context) error {
	started := a.e.hooks.begin(StageStart, nil)
	err := a.open(ctx)
	if err == nil {
		err = a.enrol(ctx)
	}
	started(err)
	if err != nil {
		return err
	}
	if err := a.wait(ctx); err != nil {
		return a.repair(ctx, err)
	}
	return a.take(ctx)
}

// open gets a session, removes what this candidate has left in earlier ones, and waits until the application is
// fit. That comes last, because an entry that is left would keep others waiting meanwhile.
func (a *attempt) open(ctx context.Context) (err error) {
	for waited := true; waited && err == nil; { // after a wait the session may be lost
		if a.session, err = a.e.session(ctx); err == nil {
			err = a.e.clear(ctx)
		}
		if err == nil {
			waited, err = a.fit.await(ctx)
		}
	}
	return err
}

// enrol finds the election, or founds it.
func (a *attempt) enrol(ctx context.Context) (err error) {
	a.dir, err = a.e.election.Enter(ctx, a.session)
	return err
}

// wait stands in the election until the strategy has won, for as long as the application is fit.
func (a *attempt) wait(ctx context.Context) (err error) {
	e := a.e
	a.reached = time.Now()
	e.observations.setRole(RoleStanding)
	observation := e.observations.add(a.session)
	defer observation.end()
	ctx, stop := a.fit.whileFit(ctx)
	defer stop()
	a.claim, err = e.cfg.Strategy.Campaign(ctx, &strategy.Candidacy{
		Session: e.surveyed(a.session), Dir: a.dir, ID: e.id, Value: e.cfg.Value, Host: a.host(observation),
	})
	return whyUnfit(ctx, err)
}

// host returns the functions with which the strategy reports and asks while the candidate waits.
func (a *attempt) host(seen *observation) strategy.Host {
	e := a.e
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
		Withdraw: func(ctx context.Context, entry backend.Entry) error { return e.withdraw(ctx, a.session, entry) },
		Aside: func(why error) {
			e.observations.placeChanged()
			e.log.Info("standing aside", "why", why)
			e.hooks.aside(why)
		},
	}
	if a.fit != nil {
		host.Fit = a.fit.now
	}
	return host
}

// repair prepares the election for the next attempt, if this one has failed because the election's directory is
// gone or takes no more entries. It returns err in any case.
func (a *attempt) repair(ctx context.Context, err error) error {
	a.e.observations.setRole(RoleEntering) // nothing of it stands, and this may take long
	if errors.Is(err, backend.ErrNoParent) {
		// The election, or only its directory, was deleted. A new directory
		// needs a new name, so that no old condition matches entries in it.
		err = errors.Join(err, a.e.election.Refound(ctx, a.session, a.dir, err))
	}
	if errors.Is(err, backend.ErrUsedUp) { // Refound may return that, too
		err = errors.Join(err, a.e.election.MoveOn(ctx, a.session, a.dir, err))
	}
	return err
}

// take makes the win a term. If it cannot, it withdraws the entry.
func (a *attempt) take(ctx context.Context) error {
	e := a.e
	// A win that arrives as ctx or the session ends does not count.
	late := ctx.Err()
	if late == nil && (a.session.State() == backend.Lost || !time.Now().Before(a.session.Deadline())) {
		late = ErrSessionLost
	}
	if late != nil {
		return errors.Join(late, e.withdraw(ctx, a.session, a.claim.Entry))
	}
	elected := e.hooks.begin(StageElected, nil)
	a.tenure = newTenure(ctx, a)
	err := a.beginTerm()
	if err == nil {
		a.tenure.watchWindow()
		a.tenure.tellElected()
	} else {
		a.tenure.cancel(err)
		err = errors.Join(err, e.withdraw(ctx, a.session, a.claim.Entry))
	}
	elected(err)
	return err
}

// beginTerm begins the term, unless the elector has been closed meanwhile, or the application is not fit. All is
// under the lock, so that Close finds the tenure, or this finds the elector closed.
func (a *attempt) beginTerm() error {
	e, t := a.e, a.tenure
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return ErrClosed
	}
	if err := a.fit.admit(t); err != nil {
		return err
	}
	e.tenure = t
	t.noteEntry(a.claim.Entry) // somebody may have asked before the candidate knew that it leads
	if e.cfg.OnSuspend == StepDownOnSuspend {
		e.wg.Go(t.endOnSuspend)
	}
	t.goOn(new(sync.WaitGroup), t.hold)
	return nil
}

// hold watches the seat until the term ends, and then winds the term up. Beside it watchWindow ends the
// term with the session's trust window, and endOnSuspend when the link is lost, if that is the policy.
func (t *tenure) hold(beside *sync.WaitGroup) {
	if t.claim.MarkLeader {
		beside.Go(t.announce) // may take long, and must not keep hold from watching
	}
	if t.claim.Renew != nil {
		beside.Go(func() { t.runOrEnd(t.renew) })
	}
	returned := false
	defer func() {
		if !returned { // a layer of the session, or the strategy, has ended this goroutine
			t.goOn(beside, func(beside *sync.WaitGroup) {
				runApart(func() { t.lost(errEnded) })
				t.windUp(beside)
			})
		}
	}()
	t.watch(beside)
	returned = true
	t.windUp(beside)
}

// goOn runs a part of the term on a goroutine of its own. beside are writes and surveys.
func (t *tenure) goOn(beside *sync.WaitGroup, do func(beside *sync.WaitGroup)) {
	ended := t.beginPart()
	t.e.wg.Go(func() { defer ended(); do(beside) })
}

// windUp reports the end of the term, after all that the term has reported before, and releases an entry that
// no resignation releases. The next campaign waits until it is done.
func (t *tenure) windUp(beside *sync.WaitGroup) {
	t.noteEnd()
	cause := context.Cause(t.ctx)
	if !errors.Is(cause, ErrResigned) {
		t.e.noteError(context.Background(), fmt.Errorf("term %d ended: %w", t.claim.Token, cause))
	}
	if errors.Is(cause, ErrSuspended) || errors.Is(cause, ErrDeposed) && !t.gone.Load() {
		beside.Go(t.releaseOrphan)
	}
	<-t.told
	t.request.heard.Wait()
	t.e.log.Info("term ended", "token", t.claim.Token, "cause", cause)
	t.e.hooks.own.ended(t.term, cause)
	beside.Wait()
	close(t.done)
}
