package elector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/internal/delay"
)

// Lead takes part in an election until ctx ends. It combines [New], [Run] and Close, for a program that
// needs its Elector for nothing else.
//
// It returns nil when ctx has ended, lead has returned, and the service has confirmed that nothing of this
// candidate is left. It also returns nil when lead returns nil while its term holds. Otherwise it returns the
// error of New, or the errors of [Run], without ctx's error, and of Close, which has five seconds. A panic of
// lead is passed on to the caller, after the release.
func Lead(ctx context.Context, cfg Config, lead func(ctx context.Context, t *Term) error) (err error) {
	e, err := New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, e.Close(closing))
	}()
	_, err = run(ctx, e, lead)
	return err
}

// Run campaigns, calls lead while this candidate leads, and campaigns again when
// the term is lost. It returns
//
//   - nil when lead returns nil while its term holds: the work is done;
//   - lead's error if it wraps ErrStop;
//   - the error of a Campaign that is not worth repeating;
//   - ctx's error, with its cause, when ctx has ended, lead has returned, and
//     the seat has been released, as far as the service has confirmed that
//     within two seconds. Otherwise the session continues, and Close reports it.
//
// Otherwise, after an error of lead, a lost term or a request to go (ErrAsked), it resigns, so that another
// candidate gets its chance, and campaigns again after a jittered pause that grows while terms are short.
// An error or a panic of lead is part of the cause of the term's end, as reported to Hooks.Ended and the
// log. An error that Run does not return is reported to Hooks.Retry, with the pause, and logged at Warn.
// A panic is logged at Error.
//
// lead's ctx ends when the term or ctx ends, or when the leader is asked to go (its cause is ErrAsked
// then). If the request names the next leader, Run first makes that candidate the next one (Term.Transfer),
// while lead continues its work. This takes at most ten seconds; if it fails, the leader goes nevertheless.
//
// Run releases the seat only after lead has returned or panicked (the panic is passed on to the caller of
// Run), and does not campaign before that. So a lead function that ignores its ctx keeps the seat for as
// long as the session lives, and Run does not return. The log says so at Warn, first ten seconds after its
// ctx has ended. The function does not keep a term that is lost: others may lead while it still runs, and
// only fencing protects what it writes.
func Run(ctx context.Context, e Elector, lead func(ctx context.Context, t *Term) error) error {
	stopped, err := run(ctx, e, lead)
	switch {
	case stopped == nil:
		return err
	case err == nil:
		return stopped
	}
	return errors.Join(stopped, err)
}

// run implements Run. stopped is ctx's error, if run returns because ctx has ended. err is any other error.
func run(ctx context.Context, e Elector, lead func(ctx context.Context, t *Term) error) (stopped, err error) {
	const shortest, longest, good = 100 * time.Millisecond, 30 * time.Second, 10 * time.Second
	const longestAsked = time.Second // a leader that was asked to go stands again soon: a quorum may need it
	var backoff delay.Backoff
	for {
		var s standby // only campaigns and leads if there is no Config.Standby
		t, stopped, err := s.campaign(ctx, e)
		if t == nil {
			return stopped, err
		}
		began := time.Now()
		held, why, err := s.lead(ctx, t, lead)
		switch {
		case s.failed != nil:
			return nil, fmt.Errorf("elector: run %s: %w", s.e.cfg.Election, s.failed)
		case errors.Is(err, ErrStop):
			return nil, err
		case ctx.Err() != nil:
			return delay.Ended(ctx), unlessCancelled(err)
		case held && err == nil:
			return nil, nil
		}
		if time.Since(began) > good {
			backoff.Attempt = 0
		}
		most := longest
		if _, asked := t.Request(); asked {
			most = longestAsked
		}
		wait := backoff.Next(shortest, most)
		if stopped := t.c.tenure.pause(ctx, &backoff, wait, why); stopped != nil {
			return stopped, nil // Hooks.Retry has had why
		}
	}
}

// leadOnce leads for one term and releases the seat, also if lead panics or ends its goroutine. held reports
// whether the term still held when lead returned. why is lead's error, or nil if it only says that lead had to
// return. While inStandby is set lead waits for Config.Standby.
func leadOnce(ctx context.Context, t *Term, inStandby *atomic.Bool, lead func(context.Context, *Term) error) (held bool, why, err error) {
	leading, end := heed(ctx, t)
	defer end()
	ended := t.c.tenure.beginPart()
	stop := t.c.tenure.remind(leading, inStandby)
	err = errGoexitOfLead // until lead has returned
	defer func() {
		ended()
		reminded := stop() // before the release ends leading, so that no goroutine begins then
		defer func() { <-reminded }()
		if err == errGoexitOfLead {
			p := recover()
			if p != nil {
				err = fmt.Errorf("lead panicked: %v", p)
			}
			defer t.c.tenure.leadFailed(ctx, err, p) // even if a hook panics
		}
		held, why = t.resignAfter(ctx, leading, err)
	}()
	err = lead(leading, t)
	return false, nil, err // the deferred function sets held and why
}

// heed returns the ctx of lead, which ends with the term or with ctx, or when the leader is asked to go. If the
// request names the next leader, heed first makes that candidate the next one.
func heed(ctx context.Context, t *Term) (leading context.Context, end func()) {
	leading, cancel := context.WithCancelCause(t.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	heeded := make(chan struct{})
	ignore := context.AfterFunc(t.asked(), func() {
		defer close(heeded)
		if leading.Err() != nil {
			return
		}
		r, _ := t.Request()
		defer cancel(fmt.Errorf("%w %v", ErrAsked, r)) // even if a layer of the session ends this goroutine
		if r.To != "" {
			t.makeWay(leading, r.To)
		}
	})
	return leading, func() {
		cancel(nil)
		if !ignore() {
			<-heeded
		}
		stop()
	}
}

// asked returns a context that ends when the leader is asked to go. No goroutine waits for that, except for a
// fake's.
func (t *Term) asked() context.Context {
	if t.c.tenure != nil {
		return t.c.tenure.request.asked
	}
	return fakeAsked{t.Context(), t.Asked()}
}

// fakeAsked is the context of a fake's Asked.
type fakeAsked struct {
	context.Context
	asked <-chan struct{}
}

func (f fakeAsked) Done() <-chan struct{} { return f.asked }

func (f fakeAsked) Err() error {
	select {
	case <-f.asked:
		return context.Canceled
	default:
		return nil
	}
}

// makeWay makes the candidate that a request names the next, while lead still works.
func (t *Term) makeWay(leading context.Context, id string) {
	// A line of a hundred candidates takes about a second, one hop each. A frozen candidate in it must not
	// keep the leader from going: its session ends in about that time with the defaults.
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(leading, patience)
	defer cancel()
	errNext := errors.New("the heir is next")
	err := t.Transfer(ctx, id, func() error { return errNext }) // Run stops the work and resigns
	if !errors.Is(err, errNext) && leading.Err() == nil && t.c.tenure != nil {
		t.c.tenure.e.log.Warn("going without an heir", "token", t.Token(), "to", id, "err", err)
	}
}

// resignAfter resigns after lead has returned err. held and why are as in leadOnce.
func (t *Term) resignAfter(ctx, leading context.Context, err error) (held bool, why error) {
	asked := errors.Is(context.Cause(leading), ErrAsked)
	held, why = t.Valid() && !asked, leadError(leading, err)
	done, cancel := cleanup(ctx)
	defer cancel()
	// An error of a resignation says that the release is not confirmed yet. It continues in the background, and
	// Close waits for it, or reports it.
	if t.c.tenure == nil { // a fake's
		_ = t.Resign(done)
		return held, why
	}
	cause := ErrResigned
	if asked {
		cause = fmt.Errorf("%w: %w", cause, context.Cause(leading))
	}
	if why != nil {
		cause = fmt.Errorf("%w: %v", cause, why) // only the text: it may be about another session or term
	}
	_ = t.c.tenure.resign(done, cause)
	return held, why
}

// leadFailed logs that lead has panicked with p, or ended its goroutine if p is nil, and passes the panic on to
// the caller of Run. It does so after the release: the process may then exit before the end of the term is
// logged.
func (t *tenure) leadFailed(ctx context.Context, err error, p any) {
	if t != nil { // not a fake's
		t.e.log.Error("lead failed", "token", t.claim.Token, "err", err)
		asynclog.Flush(context.WithoutCancel(ctx), t.e.log, asynclog.LastWords)
	}
	if p != nil {
		panic(p)
	}
}

// errGoexitOfLead is the outcome of a lead function that neither returns nor panics.
var errGoexitOfLead = errors.New("lead has ended its goroutine (runtime.Goexit, or FailNow of a test)")

// remind logs, at growing intervals, that lead, or Config.Standby while inStandby is set, still runs although
// its ctx has ended: nothing else would tell why this process does not stand. stop ends the reminders, and
// returns a channel that is closed when they have ended.
func (t *tenure) remind(leading context.Context, inStandby *atomic.Bool) (stop func() <-chan struct{}) {
	done := make(chan struct{})
	running, returned := context.WithCancel(context.Background())
	cancel := context.AfterFunc(leading, func() {
		defer close(done)
		if t == nil {
			return // a fake's
		}
		reminders(running, func(since time.Duration) {
			if inStandby.Load() {
				t.e.log.Warn("standby has not returned", "since", since, "cause", context.Cause(leading))
				return
			}
			t.e.log.Warn("lead has not returned", "token", t.claim.Token, "since", since, "cause", context.Cause(leading), "valid", t.valid())
		})
	})
	return func() <-chan struct{} {
		returned()
		if cancel() {
			close(done)
		}
		return done
	}
}

// reminders calls log at growing intervals until running ends.
func reminders(running context.Context, log func(since time.Duration)) {
	const first, longest = 10 * time.Second, 10 * time.Minute
	began := time.Now()
	for pause := first; delay.Sleep(running, pause) == nil; pause = min(2*pause, longest) {
		log(time.Since(began).Round(time.Second))
	}
}

// pause waits before the next campaign, and reports why, if lead has failed. It returns ctx's error.
func (t *tenure) pause(ctx context.Context, b *delay.Backoff, wait time.Duration, why error) error {
	if t == nil { // a fake's
		return delay.Sleep(ctx, wait)
	}
	defer t.e.observations.retries(b, wait)()
	if why != nil {
		t.e.noteError(ctx, why)
		t.e.log.Warn("lead failed; campaigning again", "token", t.claim.Token, "attempt", b.Attempt, "wait", wait, "err", why)
		t.e.hooks.retry(RetryEvent{What: WorkLead, Term: t.term, Err: why, Attempt: b.Attempt, Wait: wait})
	}
	bound, cancel := t.e.bind(ctx) // if the elector closes, the next Campaign says so at once
	defer cancel()
	if delay.Sleep(bound, wait) != nil && ctx.Err() != nil {
		return delay.Ended(ctx)
	}
	return nil
}

// leadError returns lead's error, or nil if the error only says that lead's ctx has ended. While that
// ctx lives, the same error comes from a limit of lead's own.
func leadError(leading context.Context, err error) error {
	switch {
	case leading.Err() == nil:
		return err
	case errors.Is(err, context.Cause(leading)), errors.Is(err, ErrAsked):
		return nil
	}
	return unlessCancelled(err)
}

// unlessCancelled drops an error that only says that a ctx has ended, which the caller knows.
func unlessCancelled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// A standby is the call of Config.Standby for one campaign of Run. Run passes it to Campaign in its ctx, and
// Campaign calls Standby once it has begun: so it does in an Elector that wraps one that New has made.
type standby struct {
	elected   chan struct{} // closed when the candidate has won
	inStandby atomic.Bool   // lead waits for Standby

	// Set when Standby is called; e is nil until then.
	e    *elector
	ctx  context.Context // Standby's
	end  context.CancelFunc
	done chan struct{} // closed when Standby has returned

	// What Standby has returned, to be read when done is closed: err is its error, and failed that of one that
	// did not have to return.
	err, failed error
}

type standbyKey struct{}

// campaign campaigns. If there is no term, stopped is the error of a ctx that has ended, and err any other.
func (s *standby) campaign(ctx context.Context, e Elector) (t *Term, stopped, err error) {
	s.elected = make(chan struct{})
	defer func() {
		if t == nil && s.end != nil { // also when a hook panics, or ends the goroutine
			s.end()
		}
	}()
	t, err = e.Campaign(context.WithValue(ctx, standbyKey{}, s))
	if err == nil {
		return t, nil, nil
	}
	over := ctx.Err() != nil // as of now, and not when Standby has returned
	s.wait(err)
	if over {
		return nil, err, unlessCancelled(s.err) // Close also reports anything that is left of the campaign
	}
	return nil, nil, err
}

// startStandby calls Config.Standby for the campaign of Run that ctx belongs to, if any. campaign is the ctx to
// campaign with: it also ends when Standby fails.
func (e *elector) startStandby(caller, ctx context.Context) (campaign context.Context, s *standby) {
	s, _ = ctx.Value(standbyKey{}).(*standby)
	if s == nil {
		return ctx, nil
	}
	ctx = context.WithValue(ctx, standbyKey{}, (*standby)(nil)) // a campaign within the term is not Run's
	if e.cfg.Standby == nil || s.e != nil {
		return ctx, nil
	}
	campaign, withdraw := context.WithCancel(ctx)
	s.e, s.done = e, make(chan struct{})
	s.ctx, s.end = context.WithCancel(caller)
	go func() {
		s.err = errors.New("it has ended its goroutine (runtime.Goexit, or FailNow of a test)")
		defer func() {
			failed := s.err != nil && s.ctx.Err() == nil
			if failed {
				s.failed = fmt.Errorf("standby: %w", s.err)
			}
			close(s.done)
			if failed {
				withdraw()
			}
		}()
		s.err = e.cfg.Standby(s.ctx, s.elected)
	}()
	return campaign, s
}

// failure returns why Standby has failed by itself, or nil. It does not block.
func (s *standby) failure() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.failed
	default:
		return nil
	}
}

// wait ends Standby's ctx, for this cause, and blocks until Standby has returned.
func (s *standby) wait(cause error) {
	if s.e == nil {
		return
	}
	s.end()
	running, returned := context.WithCancel(context.Background())
	var reminding sync.WaitGroup
	reminding.Go(func() {
		reminders(running, func(since time.Duration) {
			s.e.log.Warn("standby has not returned", "since", since, "cause", cause)
		})
	})
	<-s.done
	returned()
	reminding.Wait()
}

// lead is leadOnce, with lead called once Standby has returned.
func (s *standby) lead(ctx context.Context, t *Term, lead func(context.Context, *Term) error) (held bool, why, err error) {
	if s.e == nil {
		return leadOnce(ctx, t, &s.inStandby, lead)
	}
	defer s.end() // also when lead panics
	return leadOnce(ctx, t, &s.inStandby, func(ctx context.Context, t *Term) error {
		s.inStandby.Store(true)
		close(s.elected)
		select {
		case <-s.done:
		case <-ctx.Done():
			s.end()
			<-s.done
		}
		s.inStandby.Store(false)
		switch {
		case s.err != nil:
			return fmt.Errorf("standby: %w", s.err)
		case s.ctx.Err() != nil: // nothing may be ready
			return s.ctx.Err()
		}
		return lead(ctx, t)
	})
}
