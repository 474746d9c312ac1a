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
	"github.com/elector-go/elector/internal/layout"
)

// seat is the elector's side of a Term: it holds the claim.
type seat struct {
	e       *elector
	session *backend.Session
	claim   Claim
	term    *Term
	ctx     context.Context
	cancel  context.CancelCauseFunc
	dir     string        // the election's directory
	writing chan struct{} // held while the entry is written
	handing chan struct{} // held while a transfer is prepared
	told    chan struct{} // closed when Elected has been reported
	done    chan struct{} // closed when Ended has been reported
	gone    atomic.Bool   // the entry is known to be gone
	caught  atomic.Bool   // the session reads everything that was there at the claim

	published bool // the entry has been written in this term; guarded by writing, like post
	post      post // what was written last, or must be written first

	mu      sync.Mutex
	timer   *time.Timer
	entry   backend.Entry  // as last seen
	request *Request       // the request to go
	asked   chan struct{}  // closed when request is set
	over    bool           // Ended is being reported: no further request is reported
	began   time.Time      // for Status, like the fields below
	ended   time.Time      // when the term was seen to be over
	goesOn  int            // number of parts that still run: the term's end, a lead function
	freed   time.Time      // when a part last ended
	shown   []byte         // the last published value
	heard   sync.WaitGroup // hooks that report a request
}

// seated begins a term. It fails if the elector has been closed meanwhile, or the application is not fit.
func (e *elector) seated(ctx context.Context, s *backend.Session, dir string, c Claim, fit *fitness) (*seat, error) {
	t := &seat{
		e: e, session: s, dir: dir, claim: c, post: post{value: e.cfg.Value},
		writing: make(chan struct{}, 1), handing: make(chan struct{}, 1), told: make(chan struct{}), done: make(chan struct{}),
		entry: c.Entry, asked: make(chan struct{}), began: time.Now(), shown: e.cfg.Value,
	}
	settled := t.begins()
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.term = NewTerm(TermConfig{
		Token: c.Token, Context: t.ctx,
		Valid: t.valid, Proclaim: t.proclaim, Commit: t.commit,
		Guard:  func() Guard { return Guard{Session: s, Conditions: slices.Clone(c.Conditions)} },
		Resign: func(ctx context.Context) error { return t.resign(ctx, ErrResigned) },
		Get:    t.get,
		Asked:  t.asked, Request: t.requested, Prepare: t.prepare,
		seat: t,
	})
	// Under the lock, so that Close finds the seat or this finds it closed.
	e.mu.Lock()
	if e.ctx.Err() != nil {
		e.mu.Unlock()
		t.cancel(ErrClosed)
		return nil, ErrClosed
	}
	if err := fit.take(t); err != nil {
		e.mu.Unlock()
		t.cancel(err)
		return nil, err
	}
	e.seat = t
	t.saw(c.Entry) // somebody may have asked before the candidate knew that it leads
	if e.cfg.OnSuspend == StepDownOnSuspend {
		e.wg.Go(t.follow)
	}
	e.wg.Go(func() { defer settled(); t.hold() })
	e.mu.Unlock()
	t.watchWindow()

	defer close(t.told) // even if the hook panics
	e.log.Info("elected", "token", c.Token)
	e.hooks.elected(t.term)
	return t, nil
}

// watchWindow ends the term when the session's trust window ends. The timer is set to the deadline known
// now; if the deadline has moved when it fires, it is set again.
func (t *seat) watchWindow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	// Read the clock first: the deadline may move between the two reads. If a paused process read the
	// clock second, it could treat an old deadline as passed.
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

// follow ends the term when the session is suspended, if that is the policy. A lost session also ends
// hold's wait. It runs on a goroutine of its own, because no hook may delay it.
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
		t.cancel(ErrSessionLost) // before the timer, so that the caller finds the cause
	}
	return t.ctx.Err() == nil
}

// hold watches the seat's entry until the term ends, and then winds the term up.
func (t *seat) hold() {
	var writes sync.WaitGroup // and looks for strangers
	if t.claim.MarkLeader {
		writes.Go(t.announce) // may take long, and must not keep hold from watching
	}
	if t.claim.Renew != nil {
		writes.Go(func() { t.untilReturned(t.renew) })
	}
	t.untilReturned(func() { t.watch(&writes) })
	t.windUp(&writes)
}

// untilReturned calls do, which runs as long as the term and may call the user's code: a layer of the
// session, or the strategy. If that code ends its goroutine, the term ends.
func (t *seat) untilReturned(do func()) {
	if !returned(do) {
		returned(func() { t.lost(errEnded) })
	}
}

// watch follows the seat's entry until the term ends.
func (t *seat) watch(writes *sync.WaitGroup) {
	lookout := t.e.newLookout(t.session).soon()
	look := func(ctx context.Context) error {
		if !lookout.under.CompareAndSwap(false, true) {
			return nil // the previous look is still running
		}
		writes.Go(func() { // must not keep hold from watching, either
			defer lookout.under.Store(false)
			if err := lookout.look(ctx); err != nil {
				lookout.report(t.term, err)
			}
		})
		return nil // the term continues
	}
	for known := t.claim.Entry; t.ctx.Err() == nil; {
		var now []backend.Entry
		err := lookout.watch(t.ctx, look, func(ctx context.Context) (err error) {
			now, err = t.session.Await(ctx, known)
			return err
		})
		switch {
		case err != nil && t.ctx.Err() == nil:
			t.lost(err)
		case err != nil:
		case !now[0].Is(t.claim.Entry):
			// Gone, or already replaced by a successor's entry under the same key.
			t.gone.Store(true)
			t.cancel(ErrDeposed)
		case t.claim.StillLeads != nil && !t.claim.StillLeads(now[0]):
			t.cancel(ErrDeposed)
		default:
			known = now[0]
			t.saw(known)
		}
	}
}

// windUp does the work after the term's end.
func (t *seat) windUp(writes *sync.WaitGroup) {
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.over, t.ended = true, time.Now()
	t.mu.Unlock()

	cause := context.Cause(t.ctx)
	if !errors.Is(cause, ErrResigned) {
		t.e.amiss(context.Background(), fmt.Errorf("term %d ended: %w", t.claim.Token, cause))
	}
	if errors.Is(cause, ErrSuspended) || errors.Is(cause, ErrDeposed) && !t.gone.Load() {
		// Otherwise an entry that nobody holds may live on with the session.
		writes.Go(func() {
			ctx, cancel := cleanup(t.ctx)
			defer cancel()
			if err := t.release(ctx); err != nil {
				t.e.log.Debug("release goes on in the background", "token", t.claim.Token, "err", err)
			}
		})
	}
	<-t.told
	t.heard.Wait()
	t.e.log.Info("term ended", "token", t.claim.Token, "cause", cause)
	t.e.hooks.own.ended(t.term, cause)
	writes.Wait()
	close(t.done)
}

// saw notes the leader's current entry, and any request in it.
func (t *seat) saw(now backend.Entry) {
	r, asked := layout.Asked(now.Value)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Version > t.entry.Version { // otherwise it was read before another
		t.entry = now
	}
	if asked {
		t.heardOf(Request(r))
	}
}

// hear notes a request to go.
func (t *seat) hear(r Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heardOf(r)
}

// heardOf is hear with t.mu locked. Only the first request counts.
func (t *seat) heardOf(r Request) {
	if t.request != nil || t.over {
		return
	}
	t.request = &r
	close(t.asked)
	t.heard.Go(func() { // a hook must not keep the leader from watching
		<-t.told
		t.e.log.Info("asked to go", "token", t.claim.Token, "by", r.By, "why", r.Why, "to", r.To)
		t.e.hooks.own.asked(t.term, r)
	})
}

// seen returns the entry as last seen.
func (t *seat) seen() backend.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry
}

// requested returns the request to go, if there is one.
func (t *seat) requested() (Request, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.request == nil {
		return Request{}, false
	}
	return *t.request, true
}

// lost ends the term because its entry cannot be watched any more. The normal reason is a lost session.
// Any other reason, such as withdrawn rights, must not leave an entry that nobody holds: the session is
// given up, and the entry goes with it.
func (t *seat) lost(why error) {
	t.cancel(ErrSessionLost)
	if t.session.State() == backend.Lost {
		return
	}
	t.e.log.Error("seat cannot be watched; session given up", "token", t.claim.Token, "err", why)
	t.e.giveUp(t.session)
}

// resign ends the term for the given cause and releases the seat.
func (t *seat) resign(ctx context.Context, cause error) error {
	if t.valid() { // otherwise it has already ended for another cause
		t.cancel(cause)
	}
	var err error
	switch {
	case t.gone.Load():
	case errors.Is(context.Cause(t.ctx), ErrSessionLost):
		// Usually the entry is gone, or goes with the session. discard checks that: a session that others
		// share may live on.
		err = t.e.discard(ctx, t.session, t.claim.Entry)
	default:
		err = t.e.hooks.stop(t.term, func() error { return t.release(ctx) })
	}
	if err != nil {
		return fmt.Errorf("elector: resign %s: not confirmed: %w", t.e.cfg.Election, err)
	}
	return nil
}

// release deletes the seat's entry under the claim's conditions. If that is not confirmed, the session
// continues to delete it in the background.
func (t *seat) release(ctx context.Context) error {
	returned := false
	defer func() {
		if !returned { // a layer of the session has panicked or ended the goroutine: the entry goes with the session
			t.e.giveUp(t.session)
		}
	}()
	_, err := t.session.Commit(ctx, t.claim.Conditions, backend.Delete(t.claim.Entry))
	returned = true
	if err != nil && !errors.Is(err, backend.ErrNoEntry) {
		// Even a failed condition does not prove that the entry is gone or the session is lost: a session
		// that others share may live on.
		if still := t.e.discard(ctx, t.session, t.claim.Entry); still != nil {
			return errors.Join(err, still)
		}
	}
	t.gone.Store(true)
	return nil
}
