package elector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/asynclog"
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
//     the seat has been released.
//
// Otherwise, after an error of lead, a lost term or a request to go (Ask), it resigns, so that another
// candidate gets its chance, and campaigns again after a jittered pause that grows while terms are short.
// An error or a panic of lead is part of the cause of the term's end, as reported to Hooks.Ended and the
// log. An error that Run does not return is reported to Hooks.Retry, with the pause, and logged at Warn.
// A panic is logged at Error.
//
// lead's ctx ends when the term or ctx ends, or when the leader is asked to go (its cause is ErrAsked
// then). If the request names the next leader, Run first makes that candidate the next one (Term.Prepare),
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
	const longestAsked = time.Second // others lead meanwhile, or need this one for a quorum
	var pause backoff
	for {
		campaign, standby := prepare(ctx, e)
		t, err := e.Campaign(campaign)
		if err != nil {
			switch failed := standby.end(); {
			case failed != nil:
				return nil, failed
			case ctx.Err() != nil:
				return err, nil // Close also reports anything that is left of the campaign
			}
			return nil, err
		}
		began := time.Now()
		held, why, err := leadOnce(ctx, t, standby.before(lead))
		failed := standby.end()
		switch {
		case failed != nil:
			return nil, failed
		case errors.Is(err, ErrStop):
			return nil, err
		case ctx.Err() != nil:
			return ended(ctx), unlessCancelled(err)
		case held && err == nil:
			return nil, nil
		}
		if time.Since(began) > good {
			pause.attempt = 0
		}
		most := longest
		if _, asked := t.Request(); asked {
			most = longestAsked
		}
		wait := pause.next(shortest, most)
		if cause := t.c.seat.pause(ctx, &pause, wait, why); cause != nil {
			return cause, unlessCancelled(err)
		}
	}
}

// leadOnce leads for one term and releases the seat, also if lead panics. held reports whether the term
// still held when lead returned. why is lead's error, or nil if it only says that lead had to return.
func leadOnce(ctx context.Context, t *Term, lead func(context.Context, *Term) error) (held bool, why, err error) {
	leading, cancel := context.WithCancelCause(t.Context())
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	var heeding sync.WaitGroup
	defer heeding.Wait() // when leading has been cancelled
	defer cancel(nil)
	heeding.Go(func() {
		select {
		case <-t.Asked():
			r, _ := t.Request()
			defer cancel(fmt.Errorf("%w %v", ErrAsked, r)) // even if a layer of the session ends this goroutine
			if r.To != "" {
				t.makeWay(leading, r.To)
			}
		case <-leading.Done():
		}
	})
	returned := t.c.seat.begins()
	stop := t.c.seat.remind(leading)
	err = errGoexitOfLead
	defer func() {
		returned()
		reminded := stop() // before the release ends leading, so that no goroutine begins then
		defer func() { <-reminded }()
		if err == errGoexitOfLead {
			if p := recover(); p != nil {
				defer panic(p) // to the caller of Run
				err = fmt.Errorf("lead panicked: %v", p)
			}
			if s := t.c.seat; s != nil {
				// After the release, and before the panic continues: the process may exit before
				// the end of the term is logged.
				defer func() {
					s.e.log.Error("lead failed", "token", t.Token(), "err", err)
					asynclog.Flush(context.WithoutCancel(ctx), s.e.log, asynclog.LastWords)
				}()
			}
		}
		asked := errors.Is(context.Cause(leading), ErrAsked)
		held, why = t.Valid() && !asked, news(leading, err)
		done, cancel := cleanup(ctx)
		defer cancel()
		// An error says that the release is not confirmed yet. It continues in the
		// background, and Close waits for it, or reports it.
		if t.c.seat == nil {
			_ = t.Resign(done)
			return
		}
		cause := ErrResigned
		if asked {
			cause = fmt.Errorf("%w: %w", cause, context.Cause(leading))
		}
		if why != nil {
			cause = fmt.Errorf("%w: %v", cause, why) // only the text: it may be about another session or term
		}
		_ = t.c.seat.resign(done, cause)
	}()
	err = lead(leading, t)
	return false, nil, err
}

// errGoexitOfLead is the outcome of a lead function that neither returns nor panics.
var errGoexitOfLead = errors.New("lead has ended its goroutine (runtime.Goexit, or FailNow of a test)")

// remind logs, at growing intervals, that lead still runs although its ctx has ended: nothing
// else would tell why this process does not stand. stop ends the reminders, and returns a
// channel that is closed when they have ended.
func (t *seat) remind(leading context.Context) (stop func() <-chan struct{}) {
	const first, longest = 10 * time.Second, 10 * time.Minute
	done := make(chan struct{})
	running, returned := context.WithCancel(context.Background())
	cancel := context.AfterFunc(leading, func() {
		defer close(done)
		if t == nil {
			return // a fake's
		}
		told := time.Now()
		for pause := first; sleep(running, pause) == nil; pause = min(2*pause, longest) {
			t.e.log.Warn("lead has not returned", "token", t.claim.Token,
				"since", time.Since(told).Round(time.Second), "cause", context.Cause(leading), "valid", t.valid())
		}
	})
	return func() <-chan struct{} {
		returned()
		if cancel() {
			close(done)
		}
		return done
	}
}

// pause waits before the next campaign, and reports why, if lead has failed.
func (t *seat) pause(ctx context.Context, b *backoff, wait time.Duration, why error) error {
	if t == nil { // a fake's
		return sleep(ctx, wait)
	}
	defer t.e.sights.waits(b, wait)()
	if why != nil {
		t.e.amiss(ctx, why)
		t.e.log.Warn("lead failed; campaigning again", "token", t.claim.Token, "attempt", b.attempt, "wait", wait, "err", why)
		t.e.hooks.retry(RetryEvent{What: WorkLead, Term: t.term, Err: why, Attempt: b.attempt, Wait: wait})
	}
	return sleep(ctx, wait)
}

// news returns lead's error, or nil if the error only says that lead's ctx has ended. While that
// ctx lives, the same error comes from a limit of lead's own.
func news(leading context.Context, err error) error {
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
