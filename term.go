package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Term is one spell of leadership. It is safe for concurrent use.
type Term struct {
	c TermConfig
}

// TermConfig is what a Term made with NewTerm does.
type TermConfig struct {
	// Token is the fencing token. Context ends, with a cause, when the term does.
	Token   uint64
	Context context.Context
	// The others do what the methods of Term say.
	Valid    func() bool
	Proclaim func(ctx context.Context, value []byte) error
	Commit   func(ctx context.Context, ops ...Op) ([]backend.Entry, error)
	Guard    func() Guard
	Resign   func(ctx context.Context) error

	// seat is what Run reports to; nil in a Term that NewTerm makes.
	seat *seat
}

// NewTerm makes a Term for fakes of Elector, and for adapters that put another
// implementation behind it. All fields must be set.
func NewTerm(c TermConfig) *Term { return &Term{c} }

// Token is the fencing token: it strictly rises from term to term of an election,
// restarts of all candidates and servers included. Never 0.
func (t *Term) Token() uint64 { return t.c.Token }

// Context lives for as long as the term. It is done before anyone else can lead,
// unless an operator gives the seat away by deleting the leader's entry: then it is
// done when the notice arrives. context.Cause tells why: ErrResigned, ErrDeposed,
// ErrSessionLost, ErrSuspended or ErrClosed, to ask with errors.Is. It keeps the values,
// not the deadline, of the Campaign's context.
func (t *Term) Context() context.Context { return t.c.Context }

// Valid tells whether the term holds at this instant: it compares now with the
// session's trust window, so it is right even in a process that was paused and
// has not run its timers yet. Ask it right before a side effect. It does not
// block. Once false it stays false.
func (t *Term) Valid() bool { return t.c.Valid() }

// Proclaim publishes a new value of the leader. It is fenced as Commit is, with the
// same errors.
func (t *Term) Proclaim(ctx context.Context, value []byte) error { return t.c.Proclaim(ctx, value) }

// Commit writes to the service while this term holds, and only then: the ops and
// the look at the term's claim are one atomic step in the service, so that the
// write of a process that slept through its own deposition is refused. Keys are the
// caller's to choose, but for the election's own; no two ops may have the same key.
// It returns what there is now under each op's key, in their order.
//
// The errors, for errors.Is:
//
//   - ErrDeposed: nothing was written, because the term is over. If that was news,
//     the term has ended now. The cause of its end is wrapped, too.
//   - ErrConflict, backend.ErrNoEntry, backend.ErrNoParent (below an ephemeral entry):
//     nothing was written, because an entry is not as one of the ops needs it. The
//     term goes on.
//   - backend.ErrTooLarge: nothing was sent, because the service does not take as
//     many ops or bytes at once. The error names the limit.
//   - backend.ErrUnavailable: nothing was written, because the service has refused to do
//     anything for a session timeout, or has said nothing for up to three, or has no space.
//     The term goes on.
//   - ErrIndeterminate: the reply was lost, and what became of the write could not be
//     found out before ctx, the session or the term ended. It may yet be done, so that what
//     you read may change. Write to the key again: once that has succeeded, the earlier
//     write is not done any more. A later write waits for what it has to, for a session
//     timeout at most (backend.ErrUnavailable).
//
// It blocks until there is an answer, while out of touch with the service, too: at
// most until ctx or the term ends, or, where the term ends because its entry was
// deleted, until the service has refused it or the session is lost.
func (t *Term) Commit(ctx context.Context, ops ...Op) ([]backend.Entry, error) {
	return t.c.Commit(ctx, ops...)
}

// Guard returns the condition that Commit puts on its writes, for a transaction of
// your own with the service's native client: see zookeeper.Checks, etcd.Cmps and
// consul.Checks. It does not block.
func (t *Term) Guard() Guard { return t.c.Guard() }

// Resign ends the term and releases the seat. The Context is cancelled first, and
// then the seat is released at once, so call it when the leader's work has
// stopped, as Run does. It blocks until the service has confirmed, or refused, or
// ctx ends. An error says that the seat may not be free yet: the session goes on
// releasing it in the background, and Resign may be called again. It is harmless on a
// term that has ended.
func (t *Term) Resign(ctx context.Context) error { return t.c.Resign(ctx) }

// seat is the Term's side in the elector: it holds the claim.
type seat struct {
	e       *elector
	session *backend.Session
	claim   Claim
	term    *Term
	ctx     context.Context
	cancel  context.CancelCauseFunc
	writing chan struct{} // held while a value is published
	told    chan struct{} // closed when Elected has been reported
	done    chan struct{} // closed when Ended has been reported
	gone    atomic.Bool   // the entry is known to be gone

	published bool // guarded by writing

	mu    sync.Mutex
	timer *time.Timer
}

// seated begins a term. It fails if the elector has been closed meanwhile.
func (e *elector) seated(ctx context.Context, s *backend.Session, c Claim) (*seat, error) {
	t := &seat{
		e: e, session: s, claim: c,
		writing: make(chan struct{}, 1), told: make(chan struct{}), done: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.term = NewTerm(TermConfig{
		Token: c.Token, Context: t.ctx,
		Valid: t.valid, Proclaim: t.proclaim, Commit: t.commit,
		Guard:  func() Guard { return Guard{Session: s, Conditions: slices.Clone(c.Conditions)} },
		Resign: func(ctx context.Context) error { return t.vacate(ctx, ErrResigned) },
		seat:   t,
	})
	// Under the lock, so that Close finds the seat or this finds it closed.
	e.mu.Lock()
	if e.ctx.Err() != nil {
		e.mu.Unlock()
		t.cancel(ErrClosed)
		return nil, ErrClosed
	}
	e.seat = t
	if e.cfg.OnSuspend == StepDownOnSuspend {
		e.wg.Go(t.follow)
	}
	e.wg.Go(t.hold)
	e.mu.Unlock()
	t.watchWindow()

	defer close(t.told) // even if the logger or the hook panics
	e.log.Info("elected", "token", c.Token)
	e.hooks.elected(c.Token)
	return t, nil
}

// watchWindow ends the term when the session's trust window does. The timer is
// set to the deadline known now; when it fires and finds a later one, it goes on.
func (t *seat) watchWindow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	// The clock first: the deadline may move between the two, and a look at the clock after
	// that, in a process that was paused, would find one passed that is not.
	now := time.Now()
	left := t.session.Deadline().Sub(now)
	if left <= 0 {
		t.cancel(ErrSessionLost)
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(left, t.watchWindow)
		return
	}
	t.timer.Reset(left)
}

// follow ends the term when touch with the service is lost, if that is the policy. A
// lost session ends hold's wait as well. It has a goroutine of its own, because no hook
// may delay it.
func (t *seat) follow() {
	for state := t.session.State(); t.ctx.Err() == nil; {
		switch {
		case state == backend.Lost:
			t.cancel(ErrSessionLost)
		case state == backend.Suspended:
			t.cancel(ErrSuspended)
		default:
			// The error is that of t.ctx: the term has ended.
			state, _ = t.session.AwaitState(t.ctx, state)
		}
	}
}

func (t *seat) valid() bool {
	if t.session.State() == backend.Lost || !time.Now().Before(t.session.Deadline()) {
		t.cancel(ErrSessionLost) // before the timer: its caller shall find the cause
	}
	return t.ctx.Err() == nil
}

// hold watches the seat's entry until the term ends, and then winds it up.
func (t *seat) hold() {
	var writes sync.WaitGroup // and looks
	if t.claim.MarkLeader {
		writes.Go(t.announce) // which may take long, and must not keep hold from watching
	}
	lookout := t.e.newLookout(t.session)
	look := func(ctx context.Context) error {
		if !lookout.under.CompareAndSwap(false, true) {
			return nil // the one before takes long
		}
		writes.Go(func() { // it must not keep hold from watching, either
			defer lookout.under.Store(false)
			if err := lookout.look(ctx); err != nil {
				lookout.report(err)
			}
		})
		return nil // the term goes on
	}
	for known := t.claim.Entry; t.ctx.Err() == nil; {
		var now []backend.Entry
		err := lookout.watch(t.ctx, look, func(ctx context.Context) (err error) {
			now, err = t.session.Await(ctx, known)
			return err
		})
		switch {
		case err != nil && t.ctx.Err() == nil:
			t.abandon(err)
		case err != nil:
		case now[0].Rev != t.claim.Entry.Rev:
			// Gone, or a successor's under the same key already.
			t.gone.Store(true)
			t.cancel(ErrDeposed)
		case t.claim.StillLeads != nil && !t.claim.StillLeads(now[0]):
			t.cancel(ErrDeposed)
		default:
			known = now[0]
		}
	}
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()

	cause := context.Cause(t.ctx)
	if errors.Is(cause, ErrSuspended) || errors.Is(cause, ErrDeposed) && !t.gone.Load() {
		// Otherwise an entry that nobody holds may live on with the session.
		writes.Go(t.drop)
	}
	<-t.told
	t.e.log.Info("term ended", "token", t.claim.Token, "cause", cause)
	t.e.hooks.ended(t.claim.Token, cause)
	writes.Wait()
	close(t.done)
}

// announce publishes the elector's own value, with the leader's mark.
func (t *seat) announce() {
	if err := t.publish(t.ctx, t.e.cfg.Value, false); err != nil && t.ctx.Err() == nil {
		// The leader leads all the same. Its successor will have to look around when
		// its time comes, instead of knowing.
		t.e.log.Warn("leadership not announced", "token", t.claim.Token, "err", err)
	}
}

// drop releases a seat that was lost; it goes on in the background if need be.
func (t *seat) drop() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupTimeout)
	defer cancel()
	if err := t.release(ctx); err != nil {
		t.e.log.Debug("release goes on in the background", "token", t.claim.Token, "err", err)
	}
}

// abandon ends the term because its entry cannot be watched any more. That the
// session is lost is the one reason there should be. Any other, such as rights
// that were withdrawn, must not leave an entry that nobody holds: it goes with the
// session.
func (t *seat) abandon(why error) {
	t.cancel(ErrSessionLost)
	if t.session.State() == backend.Lost {
		return
	}
	t.e.log.Error("seat cannot be watched; session given up", "token", t.claim.Token, "err", why)
	t.e.giveUp(t.session)
}

// vacate ends the term for the given cause and releases the seat.
func (t *seat) vacate(ctx context.Context, cause error) error {
	if t.valid() { // otherwise it has ended for a cause of its own
		t.cancel(cause)
	}
	var err error
	switch {
	case t.gone.Load():
	case errors.Is(context.Cause(t.ctx), ErrSessionLost):
		// As a rule the entry is gone, or goes with the session. This looks whether it
		// does: one that others share may live on.
		err = t.e.drop(ctx, t.session, t.claim.Entry)
	default:
		err = t.stop(ctx)
	}
	if err != nil {
		return fmt.Errorf("elector: resign %s: not confirmed: %w", t.e.cfg.Election, err)
	}
	return nil
}

// fail resigns with why the leader's work failed.
func (t *seat) fail(ctx context.Context, why error) error {
	// Only the text: it may be an error of another session, or of another term.
	return t.vacate(ctx, fmt.Errorf("%w: %v", ErrResigned, why))
}

// stop releases the seat as a stage of the recipe. The seat is released though the hook that is
// told of it panics, which goes on to the caller.
func (t *seat) stop(ctx context.Context) (err error) {
	completed := func(error) {}
	defer func() { completed(err) }()
	defer func() { err = t.release(ctx) }()
	completed = t.e.hooks.begin(StageStop)
	return nil
}

// release deletes the seat's entry, under the claim's guards. Where that is not
// confirmed, the session goes on with it in the background.
func (t *seat) release(ctx context.Context) error {
	_, err := t.session.Commit(ctx, t.claim.Conditions, backend.Delete(t.claim.Entry))
	if err != nil && !errors.Is(err, backend.ErrNoEntry) {
		// Not even that a guard did not hold says that the entry is gone, nor that the
		// session is lost: one that others share may live on.
		if dropped := t.e.drop(ctx, t.session, t.claim.Entry); dropped != nil {
			return errors.Join(err, dropped)
		}
	}
	t.gone.Store(true)
	return nil
}

func (t *seat) proclaim(ctx context.Context, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("elector: proclaim %s: value of %d bytes is too large: at most %d", t.e.cfg.Election, len(value), MaxValue)
	}
	err := t.write(ctx, func(ctx context.Context) error { return t.publish(ctx, value, true) })
	if err != nil {
		return fmt.Errorf("elector: proclaim %s: %w", t.e.cfg.Election, err)
	}
	return nil
}

// publish writes the leader's value. The first one is the elector's own, of the
// announcement; it gives way to any that the user has proclaimed since.
func (t *seat) publish(ctx context.Context, value []byte, force bool) error {
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.published && !force {
		return nil
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	_, err := t.session.Commit(ctx, t.claim.Conditions, backend.Update(t.claim.Entry, t.claim.Encode(value)))
	t.published = t.published || err == nil || errors.Is(err, backend.ErrIndeterminate)
	return err
}
