package elector

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/strategy"
)

// A Fit asks the application whether it can lead, but only while the elector campaigns or leads. A
// campaign begins with a call of Check, and the candidate enters after a call has succeeded. The calls
// of a term end with it.
//
// An unfit candidate stands aside (Hooks.Aside): it withdraws, so that nobody waits for it, and Campaign
// waits until it is fit again. With a strategy that is UnfitStands it continues to stand, where all can see
// it. In neither case does it win. A leader that becomes unfit asks itself to go (Term.Asked). Run obeys
// and campaigns again; a program without Run must obey it itself, like any other request. Nothing is
// written into the service for this, and being fit again does not cancel the request.
//
// An unfit leader that ignores the request continues to lead: the check is about the application,
// and no promise about terms depends on it.
type Fit struct {
	// Check returns why the application cannot lead, or nil. It runs on a separate goroutine, and
	// delays nothing. It may block until ctx ends: Timeout after the call, or when the campaign or
	// the term ends. A call that takes longer than Timeout counts as failed, and Check is not called
	// again before it has returned. A call that panics has failed, too; the panic is logged at Error.
	//
	// It may call Leader, Candidates and Observe of the elector, and use its Term. It should not call
	// Campaign, which returns ErrBusy, nor Close, which waits for it until Timeout has passed. Electors
	// that share a Check may call it at the same time.
	Check func(ctx context.Context) error
	// Every is the time from an answer to the next call, 10 ms at least; zero means 5 s.
	Every time.Duration
	// Timeout is how long a call may take; zero means Every, but at most 5 s. It may be longer than
	// Every: no two calls run at once.
	Timeout time.Duration
	// Failures is how many calls in a row must fail before a fit application counts as unfit; zero
	// means 1. A call that succeeds makes it fit again. A campaign whose first call fails waits for
	// one that succeeds, for any value of Failures.
	Failures int
}

// minFitEvery prevents a mistake in the unit from making the checks a busy loop.
const minFitEvery = 10 * time.Millisecond

// validate reports violations with bad, as Config.validate does.
func (f Fit) validate(bad func(format string, args ...any)) {
	switch {
	case f.Every < 0:
		bad("Fit.Every %v is negative", f.Every)
	case f.Every > 0 && f.Every < minFitEvery:
		bad("Fit.Every %v is too short: at least %v", f.Every, minFitEvery)
	}
	if f.Timeout < 0 {
		bad("Fit.Timeout %v is negative", f.Timeout)
	}
	if f.Failures < 0 {
		bad("Fit.Failures %d is negative", f.Failures)
	}
	if f.Check == nil && (f.Every != 0 || f.Timeout != 0 || f.Failures != 0) {
		bad("Fit.Check is nil, and other fields of Fit are set: give a check, or leave them zero")
	}
}

func (f Fit) withDefaults() Fit {
	if f.Every == 0 {
		f.Every = 5 * time.Second
	}
	if f.Timeout == 0 {
		f.Timeout = min(f.Every, 5*time.Second)
	}
	f.Failures = max(f.Failures, 1)
	return f
}

// fitness is the result of the checks of one campaign, and of the term that it wins. It is nil if the
// application has no check.
type fitness struct {
	e           *elector
	unfitStands bool // the strategy is UnfitStands
	end         func()

	mu      sync.Mutex
	why     error         // the application cannot lead: nil if it can
	changed chan struct{} // closed when why becomes nil or non-nil
	tenure  *tenure       // what the campaign has won
}

// errUnasked says why an application that has not answered yet cannot lead.
var errUnasked = errors.New("the first check is under way")

// checks begins the checks of a campaign. The caller must end them: see endUnlessWon.
func (e *elector) checks(ctx context.Context) *fitness {
	if e.cfg.Fit.Check == nil {
		return nil
	}
	_, stands := e.cfg.Strategy.(strategy.UnfitStands)
	f := &fitness{e: e, unfitStands: stands, why: errUnasked, changed: make(chan struct{})}
	ctx, f.end = e.bind(context.WithoutCancel(ctx)) // a term outlives the ctx of its campaign
	// Under the lock, so that Close waits for the goroutine, or checks finds the elector closed.
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() == nil {
		e.wg.Go(func() { f.poll(ctx) })
	}
	return f
}

// poll asks the application at each interval until ctx ends.
func (f *fitness) poll(ctx context.Context) {
	fit := f.e.cfg.Fit.withDefaults()
	failed, panicked := 0, false
	for first := true; ; first = false {
		err := f.e.check(ctx, fit)
		if ctx.Err() != nil {
			return // the answer may result from that
		}
		p, is := err.(*checkPanic) // errors.As would call methods of the check's error, which may panic
		if again := panicked; is {
			if panicked = true; !again {
				f.e.log.Error("the check of the application's health panicked", "panic", p.value, "stack", p.stack)
			}
		} else {
			panicked = false
		}
		switch failed++; {
		case err == nil:
			failed = 0
			f.set(nil)
		case first || failed >= fit.Failures:
			f.set(err)
		}
		if delay.Sleep(ctx, fit.Every) != nil {
			return
		}
	}
}

// A checkPanic is the error of a check that panicked.
type checkPanic struct {
	value any
	stack string
}

func (p *checkPanic) Error() string { return fmt.Sprintf("the check panicked: %v", p.value) }

// check calls the check once, after the previous call has returned, and returns its answer, or an error
// when its timeout has passed. If ctx ends during the call, check waits no longer than that, either: an
// application that ignores its ctx must not keep Close from returning.
func (e *elector) check(ctx context.Context, fit Fit) error {
	late := fmt.Errorf("the check has not returned within %v", fit.Timeout)
	timeout := time.NewTimer(fit.Timeout)
	defer timeout.Stop()
	select {
	case e.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return late
	}
	if ctx.Err() != nil { // both were ready
		<-e.checking
		return ctx.Err()
	}
	timeout.Reset(fit.Timeout)
	ctx, cancel := context.WithTimeout(ctx, fit.Timeout)
	said := make(chan error, 1)
	go func() {
		defer cancel()
		err := errors.New("the check has ended its goroutine (runtime.Goexit, or FailNow of a test)")
		defer func() {
			if p := recover(); p != nil {
				err = &checkPanic{p, string(debug.Stack())}
			}
			<-e.checking
			said <- err
		}()
		err = fit.Check(ctx)
	}()
	select {
	case err := <-said:
		return err
	case <-timeout.C:
		return late
	}
}

// set notes whether the application can lead. On a change it asks the leader to go, or calls a
// candidate's hooks.
func (f *fitness) set(why error) {
	f.mu.Lock()
	before, tenure := f.why, f.tenure
	if before != errUnasked && (before == nil) == (why == nil) {
		f.mu.Unlock()
		return
	}
	f.why = why
	changed := f.changed
	f.changed = make(chan struct{})
	f.mu.Unlock()
	if why != nil && tenure != nil { // before the strategy sees it, which may ask the leader to go without the reason
		tenure.receive(Request{By: f.e.id, Why: unfit(why).Error()})
	}
	close(changed)
	switch {
	case why == nil && before != errUnasked:
		f.e.log.Info("fit to lead again")
	case why != nil && tenure == nil:
		f.e.noteError(f.e.ctx, unfit(why))
		f.e.log.Warn("not fit to lead; standing aside", "err", why)
		// The next answers wait for the hook, and a win waits for a good answer.
		f.e.hooks.own.aside(fmt.Errorf("%w: %w", ErrUnfit, why))
	}
}

// unfit returns ErrUnfit with only the text of the check's error, which may be about another session or
// another election.
func unfit(why error) error { return fmt.Errorf("%w: %v", ErrUnfit, why) }

// stoodAside reports whether an attempt failed with err because its candidate was withdrawn as unfit.
func (f *fitness) stoodAside(err error) bool {
	return f != nil && !f.unfitStands && errors.Is(err, ErrUnfit)
}

func (f *fitness) state() (changed <-chan struct{}, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, f.why
}

// await blocks until the candidate may enter, and reports whether it had to wait. The application must
// be fit; with an UnfitStands strategy it only must have answered.
func (f *fitness) await(ctx context.Context) (waited bool, err error) {
	if f == nil {
		return false, nil
	}
	for {
		changed, why := f.state()
		if why == nil || f.unfitStands && why != errUnasked {
			return waited, nil
		}
		waited = true
		select {
		case <-changed:
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
}

// whileFit returns a ctx that also ends when the candidate must withdraw, and then with ErrUnfit as
// its cause.
func (f *fitness) whileFit(ctx context.Context) (context.Context, func()) {
	if f == nil || f.unfitStands {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			changed, why := f.state()
			if why != nil {
				cancel(unfit(why))
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}

// admit lets a term begin if the application is fit. After that, an unfit answer asks its leader to go.
func (f *fitness) admit(t *tenure) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return unfit(f.why)
	}
	f.tenure = t
	context.AfterFunc(t.ctx, f.end)
	return nil
}

// endUnlessWon ends the checks of a campaign that has not won. Otherwise they end with the term.
func (f *fitness) endUnlessWon() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tenure == nil {
		f.end()
	}
}

// whyUnfit adds the reason to an error that results from the application being unfit.
//
//go:noinline // it is no part of the stack of who waits
func whyUnfit(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrUnfit) {
		return errors.Join(cause, unlessCancelled(err))
	}
	return err
}

// now implements Candidacy.Fit.
func (f *fitness) now() (changed <-chan struct{}, unfit error) {
	changed, why := f.state()
	if why != nil {
		unfit = fmt.Errorf("%w: %w", ErrUnfit, why)
	}
	return changed, unfit
}
