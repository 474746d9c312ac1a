package elector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// seat is the elector's side of a Term: it holds the claim.
type seat struct {
	e       *elector
	session *backend.Session
	claim   strategy.Claim
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
func (e *elector) seated(ctx context.Context, s *backend.Session, dir string, c strategy.Claim, fit *fitness) (*seat, error) {
	t := &seat{
		e: e, session: s, dir: dir, claim: c, post: post{value: e.cfg.Value},
		writing: make(chan struct{}, 1), handing: make(chan struct{}, 1), told: make(chan struct{}), done: make(chan struct{}),
		entry: c.Entry, asked: make(chan struct{}), began: time.Now(), shown: e.cfg.Value,
	}
	settled := t.busy()
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.term = NewTerm(TermConfig{
		Token: c.Token, Context: t.ctx,
		Valid: t.valid, Proclaim: t.proclaim, Commit: t.commit,
		Guard:  func() Guard { return Guard{Session: s, Conditions: slices.Clone(c.Conditions)} },
		Resign: func(ctx context.Context) error { return t.resign(ctx, ErrResigned) },
		Get:    t.get,
		Asked:  t.asked, Request: t.requested, Transfer: t.transfer,
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
	t.noteEntry(c.Entry) // somebody may have asked before the candidate knew that it leads
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

// valid reports whether the term holds, and ends it if its window has passed: a process that was paused asks
// before its timers have run.
func (t *seat) valid() bool {
	if t.session.State() == backend.Lost || !time.Now().Before(t.session.Deadline()) {
		t.cancel(ErrSessionLost) // before the timer, so that the caller finds the cause
	}
	return t.ctx.Err() == nil
}

// hold watches the seat's entry until the term ends, and then winds the term up.
func (t *seat) hold() {
	var writes sync.WaitGroup // and surveys
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
	surveyor := t.e.newSurveyor(t.session).soon()
	survey := func(ctx context.Context) error {
		if !surveyor.under.CompareAndSwap(false, true) {
			return nil // the previous survey is still running
		}
		writes.Go(func() { // must not keep hold from watching, either
			defer surveyor.under.Store(false)
			if err := surveyor.survey(ctx); err != nil {
				surveyor.report(t.term, err)
			}
		})
		return nil // the term continues
	}
	for known := t.claim.Entry; t.ctx.Err() == nil; {
		var now []backend.Entry
		err := surveyor.watch(t.ctx, survey, func(ctx context.Context) (err error) {
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
			t.noteEntry(known)
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
		t.e.noteError(context.Background(), fmt.Errorf("term %d ended: %w", t.claim.Token, cause))
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

// noteEntry notes the leader's current entry, and any request in it.
func (t *seat) noteEntry(now backend.Entry) {
	r, asked := layout.Asked(now.Value)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Version > t.entry.Version { // otherwise it was read before another
		t.entry = now
	}
	if asked {
		t.noteRequest(Request(r))
	}
}

// receive notes a request to go.
func (t *seat) receive(r Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteRequest(r)
}

// noteRequest is receive with t.mu locked. Only the first request counts.
func (t *seat) noteRequest(r Request) {
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

// lastEntry returns the entry as last seen.
func (t *seat) lastEntry() backend.Entry {
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

// commit implements Term.Commit.
func (t *seat) commit(ctx context.Context, writes ...Write) ([]backend.Entry, error) {
	began := time.Now()
	var made []backend.Entry
	err := t.checkWrites(writes)
	if err == nil {
		err = t.write(ctx, func(ctx context.Context) error {
			made, err = t.apply(ctx, writes)
			return err
		})
	}
	if err != nil {
		made, err = nil, fmt.Errorf("elector: commit for %s, token %d: %w", t.e.cfg.Election, t.claim.Token, err)
	}
	t.e.hooks.commit(CommitEvent{
		Context: ctx, Term: t.term, Began: began, Took: time.Since(began), Writes: len(writes), Err: err,
	})
	return made, err
}

// apply plans and commits until the plan is not outdated. Each repetition means that somebody else has
// written.
func (t *seat) apply(ctx context.Context, writes []Write) ([]backend.Entry, error) {
	sorted := inOrder(writes)
	planned, err := plan(ctx, t.session, sorted, false)
	for err == nil {
		var done []backend.Entry
		done, err = t.session.Commit(ctx, t.claim.Conditions, planned...)
		if err == nil {
			return asGiven(writes, done), nil
		}
		if !refutes(err) {
			break
		}
		last, refusal := planned, err
		if planned, err = plan(ctx, t.session, sorted, true); err == nil && samePlan(last, planned) {
			err = refusal
		}
	}
	return nil, err
}

// asGiven sorts entries into the order of the writes.
func asGiven(writes []Write, entries []backend.Entry) []backend.Entry {
	at := make(map[string]backend.Entry, len(entries))
	for _, e := range entries {
		at[e.Key] = e
	}
	given := make([]backend.Entry, len(writes))
	for i, w := range writes {
		given[i] = at[w.key]
	}
	return given
}

// refutes reports whether a commit was refused because of the state of its keys.
func refutes(err error) bool {
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry) || errors.Is(err, backend.ErrNoParent)
}

// write does a write under the claim's conditions while the term holds. If the service refuses it because
// the claim is gone, the term ends. If nothing was written because the term is over, the error is
// ErrDeposed and says why the term ended.
func (t *seat) write(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() {
		if !t.gone.Load() { // otherwise the service refuses the write, and says so
			cancel(context.Cause(t.ctx))
		}
	})()

	if !t.valid() {
		return deposed(context.Cause(t.ctx), nil)
	}
	err := do(ctx)
	if err == nil {
		t.caught.Store(true)
	}
	unknown := errors.Is(err, backend.ErrIndeterminate)
	if refutes(err) || unknown && ctx.Err() == nil {
		// Perhaps because of a successor's write: then it is not the caller's fault.
		_, held := t.session.Commit(ctx, t.claim.Conditions)
		if t.endedBy(held) && !unknown {
			err = held
		}
	}
	switch {
	case err == nil:
		return nil
	case unknown:
		// Never ErrDeposed, which would mean that nothing was written.
		if cause := context.Cause(t.ctx); cause != nil {
			err = fmt.Errorf("%w (the term has ended: %v)", err, cause)
		}
		return err
	}
	t.endedBy(err)
	if cause := context.Cause(t.ctx); cause != nil {
		return deposed(cause, err)
	}
	return err
}

// endedBy ends the term if err says that its claim or its session is gone.
func (t *seat) endedBy(err error) bool {
	switch {
	case errors.Is(err, backend.ErrCondition):
		t.cancel(ErrDeposed)
	case errors.Is(err, backend.ErrSessionLost):
		t.cancel(ErrSessionLost)
	default:
		return false
	}
	return true
}

// deposed returns the error of a write that was not done because the term has ended with cause.
func deposed(cause, err error) error {
	if !errors.Is(cause, ErrDeposed) {
		cause = fmt.Errorf("%w: %w", ErrDeposed, cause)
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return cause
	case refutes(err):
		// Not wrapped: ErrConflict means that the term continues.
		return fmt.Errorf("%w: %v", cause, err)
	}
	return fmt.Errorf("%w: %w", cause, err)
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

// A post is the content of a leader's entry.
type post struct {
	value []byte
	heir  *layout.Heir // the candidate named to lead next, or nil
}

// publish writes the leader's value. The elector's own value, the first one, does not overwrite a value
// that the user has already proclaimed.
func (t *seat) publish(ctx context.Context, value []byte, force bool) error {
	return t.revise(ctx, force, func(p *post) { p.value = bytes.Clone(value) })
}

// revise applies change to the leader's entry and writes it. If the entry has already been written in this
// term, it does nothing unless must is set.
func (t *seat) revise(ctx context.Context, must bool, change func(*post)) error {
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.published && !must {
		return nil
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	next := t.post
	change(&next)
	payload := t.claim.Encode(next.value)
	if next.heir != nil {
		var err error
		if payload, err = layout.Name(payload, *next.heir); err != nil {
			return err
		}
	}
	err := t.overwrite(ctx, payload)
	if err == nil || errors.Is(err, backend.ErrIndeterminate) { // it may still be applied
		t.published, t.post = true, next
		t.mu.Lock()
		t.shown = next.value
		t.mu.Unlock()
	}
	return err
}

// overwrite replaces the leader's entry only in the state last seen, so that no request in it is lost
// before it has been heard.
func (t *seat) overwrite(ctx context.Context, payload []byte) error {
	for {
		known := t.lastEntry()
		conditions := append(slices.Clone(t.claim.Conditions), backend.IfUnchanged(known))
		made, err := t.session.Commit(ctx, conditions, backend.Update(t.claim.Entry, payload))
		if err == nil {
			t.noteEntry(made[0])
			return nil
		}
		unknown := errors.Is(err, backend.ErrIndeterminate)
		if !unknown && !errors.Is(err, backend.ErrCondition) || ctx.Err() != nil {
			return err
		}
		now, lookup := t.session.Get(ctx, known.Key)
		switch {
		case lookup == nil && now.Rev == known.Rev && now.Version != known.Version && bytes.Equal(now.Value, payload):
			t.noteEntry(now)
			return nil // done: somebody in between sent it twice, or its reply was lost
		case unknown || errors.Is(lookup, backend.ErrNoEntry):
			return err
		case lookup != nil:
			return lookup
		case !now.Is(known) || now.Same(known) || t.claim.StillLeads != nil && !t.claim.StillLeads(now):
			return err // the claim is gone
		}
		t.noteEntry(now)
	}
}

// renew publishes the value again whenever the strategy has a new payload.
func (t *seat) renew() {
	for t.claim.Renew(t.ctx) == nil {
		var retry delay.Backoff
		for t.ctx.Err() == nil {
			err := t.republish(t.ctx)
			if err == nil || t.ctx.Err() != nil {
				break
			}
			_ = t.e.backOff(t.ctx, &retry, time.Time{}, RetryEvent{
				What: WorkPublish, Term: t.term, Err: fmt.Errorf("renew the leader's entry: %w", err),
			}) // the error only means that the term has ended
		}
	}
}

// republish writes the leader's entry with its current value.
func (t *seat) republish(ctx context.Context) error {
	return t.write(ctx, func(ctx context.Context) error { return t.revise(ctx, true, func(*post) {}) })
}

// announce publishes the elector's own value, with the leader's mark.
func (t *seat) announce() {
	if err := t.publish(t.ctx, t.e.cfg.Value, false); err != nil && t.ctx.Err() == nil {
		// The leader leads anyway. Its successor will have to look around when its time comes.
		t.e.log.Warn("leadership not announced", "token", t.claim.Token, "err", err)
	}
}

// get implements Term.Get.
func (t *seat) get(ctx context.Context, key string) (backend.Entry, error) {
	found, err := t.read(ctx, key)
	if err != nil {
		return backend.Entry{}, fmt.Errorf("elector: get %s for %s, token %d: %w", key, t.e.cfg.Election, t.claim.Token, err)
	}
	return found, nil
}

// read reads a key while the term holds.
func (t *seat) read(ctx context.Context, key string) (found backend.Entry, err error) {
	if err := backend.CheckKey(key); err != nil {
		return backend.Entry{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	if t.valid() {
		if err = t.catchUp(ctx); err == nil {
			found, err = t.session.Get(ctx, key)
		}
	}
	if err != nil {
		t.endedBy(err)
	}
	if !t.valid() {
		return backend.Entry{}, deposed(context.Cause(t.ctx), err)
	}
	return found, err
}

// catchUp ensures that the session reads nothing older than the claim. On ZooKeeper, a candidate that has
// waited wins by a notice. Before version 3.9, if the link breaks, the session may then continue at a
// server that does not have what the notice was about, nor the last leader's earlier writes. A commit
// prevents that, and each commit of the term has the claim as its condition.
func (t *seat) catchUp(ctx context.Context) error {
	if t.caught.Load() {
		return nil
	}
	_, err := t.session.Commit(ctx, t.claim.Conditions)
	if errors.Is(err, backend.ErrIndeterminate) { // a question leaves only its answer in doubt
		err = fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	if err == nil {
		t.caught.Store(true)
	}
	return err
}

// transfer implements Term.Transfer.
func (t *seat) transfer(ctx context.Context, id string, resign func() error) error {
	if err := t.prepareHeir(ctx, id); err != nil {
		return fmt.Errorf("elector: transfer %s to %q: %w", t.e.cfg.Election, id, err)
	}
	return resign()
}

// prepareHeir blocks until the candidate with the ID is next.
func (t *seat) prepareHeir(ctx context.Context, id string) error {
	transferrer, err := t.e.election.Transferrer()
	if err != nil {
		return err
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	select {
	case t.handing <- struct{}{}:
		defer func() { <-t.handing }()
	case <-ctx.Done():
	}
	switch {
	case !t.valid():
		return deposed(context.Cause(t.ctx), nil)
	case ctx.Err() != nil:
		return delay.Ended(ctx)
	}
	named := false
	err = t.e.election.CatchUp(ctx, t.session) // its server may not know yet of a candidate that has just come
	if err == nil {
		var heir Candidate
		if heir, err = t.e.election.Heir(ctx, t.session, t.dir, t.claim.Entry, id); err == nil {
			err = transferrer.Transfer(ctx, &strategy.Handover{
				Session: t.session, Dir: t.dir, Seat: t.lastEntry(), Heir: heir,
				Name: func(ctx context.Context) error {
					named = true
					return t.name(ctx, &layout.Heir{Key: heir.Entry.Key, Rev: heir.Entry.Rev, ID: id})
				},
			})
		}
	}
	if errors.Is(err, ErrDeposed) {
		t.cancel(ErrDeposed) // before the notice comes
	}
	switch {
	case !t.valid():
		return deposed(context.Cause(t.ctx), err)
	case err == nil:
		return nil
	}
	if named {
		// Otherwise candidates would continue to step aside for nothing.
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if kept := t.name(ctx, nil); kept != nil && t.valid() {
			t.e.log.Warn("heir still named", "token", t.claim.Token, "heir", id, "err", kept)
		}
	}
	if cause := context.Cause(caller); caller.Err() != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// name writes into the leader's entry who should lead next, or that nobody is named.
func (t *seat) name(ctx context.Context, heir *layout.Heir) error {
	return t.write(ctx, func(ctx context.Context) error {
		return t.revise(ctx, true, func(p *post) { p.heir = heir })
	})
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
	if !errors.Is(err, errNext) && leading.Err() == nil && t.c.seat != nil {
		t.c.seat.e.log.Warn("going without an heir", "token", t.Token(), "to", id, "err", err)
	}
}
