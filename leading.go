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
	"github.com/elector-go/elector/internal/unhurried"
	"github.com/elector-go/elector/strategy"
)

// A tenure is the elector's side of a Term: it holds the seat, the entry by which the leader leads. The fields
// up to cancel do not change once the term has begun.
type tenure struct {
	e       *elector
	session *backend.Session
	dir     string // the election's directory
	claim   strategy.Claim
	term    *Term
	ctx     context.Context // the term's
	cancel  context.CancelCauseFunc

	told    chan struct{} // closed when Elected has been reported
	done    chan struct{} // closed at the end of windUp
	handing chan struct{} // held while a transfer is prepared
	gone    atomic.Bool   // the entry is known to be gone
	caught  atomic.Bool   // the session reads everything that was there at the claim

	life    life
	request goRequest
	draft   draft
}

// life is how far a term has come.
type life struct {
	mu    sync.Mutex    // guards all
	timer *time.Timer   // ends the term with the trust window
	entry backend.Entry // as last seen
	value []byte        // as last published
	began time.Time
	ended time.Time // when the term was seen to be over
	parts int       // how many still run: the term's end, a lead function
	freed time.Time // when a part last ended
}

// goRequest is the request to go. A term gets at most one.
type goRequest struct {
	mu    sync.Mutex      // guards all but asked and ask
	first *Request        // nil until there is one
	asked context.Context // ends, by ask, when first is set
	ask   context.CancelFunc
	over  bool           // Ended is being reported: no further request is reported
	heard sync.WaitGroup // hooks that report it
}

// draft is what the leader's entry is to hold.
type draft struct {
	writing   chan struct{} // held while the entry is written; guards published and post
	published bool          // the entry has been written in this term
	awaited   chan struct{} // closed, by await, when somebody waits for a write of it: the mark hurries then
	await     sync.Once
	post      post // what was written last, or must be written first
}

// A post is the content of a leader's entry.
type post struct {
	value []byte
	heir  *layout.Heir // the candidate named to lead next, or nil
}

// newTenure returns the tenure of an attempt's win. Its term has not begun.
func newTenure(ctx context.Context, a *attempt) *tenure {
	value := a.e.cfg.Value
	t := &tenure{
		e: a.e, session: a.session, dir: a.dir, claim: a.claim,
		told: make(chan struct{}), done: make(chan struct{}), handing: make(chan struct{}, 1),
		life:  life{entry: a.claim.Entry, value: value, began: time.Now()},
		draft: draft{writing: make(chan struct{}, 1), awaited: make(chan struct{}), post: post{value: value}},
	}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.request.asked, t.request.ask = context.WithCancel(context.Background())
	t.term = NewTerm(TermConfig{
		Token: t.claim.Token, Context: t.ctx,
		Valid: t.valid, Proclaim: t.proclaim, Commit: t.commit,
		Guard:  func() Guard { return Guard{Session: t.session, Conditions: slices.Clone(t.claim.Conditions)} },
		Resign: func(ctx context.Context) error { return t.resign(ctx, ErrResigned) },
		Get:    t.get,
		Asked:  t.request.asked.Done(), Request: t.requested, Transfer: t.transfer,
		tenure: t,
	})
	return t
}

// tellElected reports that the term has begun.
func (t *tenure) tellElected() {
	defer close(t.told) // even if the hook panics
	t.e.log.Info("elected", "token", t.claim.Token)
	t.e.hooks.elected(t.term)
}

// watchWindow ends the term when the session's trust window ends. The timer is set to the deadline known
// now; if the deadline has moved when it fires, it is set again.
func (t *tenure) watchWindow() {
	t.life.mu.Lock()
	defer t.life.mu.Unlock()
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
	if t.life.timer == nil {
		t.life.timer = time.AfterFunc(left, t.watchWindow)
		return
	}
	t.life.timer.Reset(left)
}

// endOnSuspend ends the term when the session is suspended, if that is the policy. A lost session also ends
// hold's wait. It runs on a goroutine of its own, because no hook may delay it.
func (t *tenure) endOnSuspend() {
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
func (t *tenure) valid() bool {
	if t.session.State() == backend.Lost || !time.Now().Before(t.session.Deadline()) {
		t.cancel(ErrSessionLost) // before the timer, so that the caller finds the cause
	}
	return t.ctx.Err() == nil
}

// runOrEnd calls do, which runs as long as the term and may call the user's code: a layer of the session, or
// the strategy. If that code ends its goroutine, the term ends.
func (t *tenure) runOrEnd(do func()) {
	if !runApart(do) {
		runApart(func() { t.lost(errEnded) })
	}
}

// watch follows the seat until the term ends.
func (t *tenure) watch(beside *sync.WaitGroup) {
	surveyor := t.e.election.NewSurveyor(t.session, t.e.cfg.SurveyEvery).Soon()
	var surveying atomic.Bool
	survey := func(ctx context.Context) error {
		if !surveying.CompareAndSwap(false, true) {
			return nil // the previous survey is still running
		}
		beside.Go(func() { // must not keep hold from watching, either
			defer surveying.Store(false)
			if err := surveyor.Survey(ctx); err != nil {
				t.e.log.Error("strangers found", "err", err)
				t.e.hooks.own.occupied(t.term, err)
			}
		})
		return nil // the term continues
	}
	for known := []backend.Entry{t.claim.Entry}; t.ctx.Err() == nil; {
		var now []backend.Entry
		err := surveyor.Watch(t.ctx, survey, func(ctx context.Context) (err error) {
			now, err = t.session.Await(ctx, known...)
			return err
		})
		t.changed(now, err)
		known = now
	}
}

// changed handles the end of a wait for a change of the leader's entry: after an error the term ends. It is apart from
// watch, whose stack stays as long as the term.
//
//go:noinline
func (t *tenure) changed(now []backend.Entry, err error) {
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
		t.noteEntry(now[0])
	}
}

// noteEnd notes that the term is over: no request is reported any more.
func (t *tenure) noteEnd() {
	t.request.mu.Lock()
	t.request.over = true
	t.request.mu.Unlock()
	t.life.mu.Lock()
	defer t.life.mu.Unlock()
	t.life.ended = time.Now()
	if t.life.timer != nil {
		t.life.timer.Stop()
	}
}

// noteEntry notes the leader's current entry, and any request in it.
func (t *tenure) noteEntry(now backend.Entry) {
	if r, asked := layout.Asked(now.Value); asked {
		t.receive(Request(r)) // first: overwrite replaces an entry that is noted
	}
	t.life.mu.Lock()
	defer t.life.mu.Unlock()
	if now.Version > t.life.entry.Version { // otherwise it was read before another
		t.life.entry = now
	}
}

// lastEntry returns the entry as last seen.
func (t *tenure) lastEntry() backend.Entry {
	t.life.mu.Lock()
	defer t.life.mu.Unlock()
	return t.life.entry
}

// receive notes a request to go. Only the first one counts.
func (t *tenure) receive(r Request) {
	t.request.mu.Lock()
	defer t.request.mu.Unlock()
	if t.request.first != nil || t.request.over {
		return
	}
	t.request.first = &r
	t.request.ask()
	t.request.heard.Go(func() { // a hook must not keep the leader from watching
		<-t.told
		t.e.log.Info("asked to go", "token", t.claim.Token, "by", r.By, "why", r.Why, "to", r.To)
		t.e.hooks.own.asked(t.term, r)
	})
}

// requested returns the request to go, if there is one.
func (t *tenure) requested() (Request, bool) {
	t.request.mu.Lock()
	defer t.request.mu.Unlock()
	if t.request.first == nil {
		return Request{}, false
	}
	return *t.request.first, true
}

// lost ends the term because its entry cannot be watched any more. The normal reason is a lost session.
// Any other reason, such as withdrawn rights, must not leave an entry that nobody holds: the session is
// given up, and the entry goes with it.
func (t *tenure) lost(why error) {
	t.cancel(ErrSessionLost)
	if t.session.State() == backend.Lost {
		return
	}
	t.e.log.Error("seat cannot be watched; session given up", "token", t.claim.Token, "err", why)
	t.e.giveUp(t.session)
}

// resign ends the term for the given cause and releases the seat.
func (t *tenure) resign(ctx context.Context, cause error) error {
	waits := ctx.Err() == nil
	if t.valid() { // otherwise it has already ended for another cause
		t.cancel(cause)
	}
	if waits && ctx.Err() != nil { // a ctx of the lead function has ended with the term
		late, cancel := cleanup(ctx)
		defer cancel()
		ctx = late
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

// release deletes the seat under the claim's conditions. If that is not confirmed, the session
// continues to delete it in the background.
func (t *tenure) release(ctx context.Context) error {
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

// releaseOrphan releases the entry of a term that has ended without a resignation: it may live on with the
// session, and nobody holds it.
func (t *tenure) releaseOrphan() {
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if err := t.release(ctx); err != nil {
		t.e.log.Debug("release goes on in the background", "token", t.claim.Token, "err", err)
	}
}

// commit implements Term.Commit.
func (t *tenure) commit(ctx context.Context, writes ...Write) ([]backend.Entry, error) {
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
func (t *tenure) apply(ctx context.Context, writes []Write) ([]backend.Entry, error) {
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
func (t *tenure) write(ctx context.Context, do func(context.Context) error) error {
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
func (t *tenure) endedBy(err error) bool {
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

func (t *tenure) proclaim(ctx context.Context, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("elector: proclaim %s: value of %d bytes is too large: at most %d", t.e.cfg.Election, len(value), MaxValue)
	}
	err := t.write(ctx, func(ctx context.Context) error {
		return t.revise(ctx, true, func(p *post) { p.value = bytes.Clone(value) })
	})
	if err != nil {
		return fmt.Errorf("elector: proclaim %s: %w", t.e.cfg.Election, err)
	}
	return nil
}

// revise applies change to the leader's entry and writes it. If the entry has already been written in this
// term, it does nothing unless must is set.
func (t *tenure) revise(ctx context.Context, must bool, change func(*post)) error {
	d := &t.draft
	if must {
		d.await.Do(func() { close(d.awaited) })
	}
	select {
	case d.writing <- struct{}{}:
		defer func() { <-d.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.published && !must {
		return nil
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	next := d.post
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
		d.published, d.post = true, next
		t.life.mu.Lock()
		t.life.value = next.value
		t.life.mu.Unlock()
	}
	return err
}

// overwrite replaces the leader's entry only in the state last seen, so that no request in it is lost
// before it has been heard.
func (t *tenure) overwrite(ctx context.Context, payload []byte) error {
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
func (t *tenure) renew() {
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
func (t *tenure) republish(ctx context.Context) error {
	return t.write(ctx, func(ctx context.Context) error { return t.revise(ctx, true, func(*post) {}) })
}

// announce writes the leader's mark with the elector's own value, unless the user has already proclaimed one.
func (t *tenure) announce() {
	if err := t.revise(unhurried.Context(t.ctx, t.draft.awaited), false, func(*post) {}); err != nil && t.ctx.Err() == nil {
		// The leader leads anyway. Its successor will have to look around when its time comes.
		t.e.log.Warn("leadership not announced", "token", t.claim.Token, "err", err)
	}
}

// get implements Term.Get.
func (t *tenure) get(ctx context.Context, key string) (backend.Entry, error) {
	found, err := t.read(ctx, key)
	if err != nil {
		return backend.Entry{}, fmt.Errorf("elector: get %s for %s, token %d: %w", key, t.e.cfg.Election, t.claim.Token, err)
	}
	return found, nil
}

// read reads a key while the term holds.
func (t *tenure) read(ctx context.Context, key string) (found backend.Entry, err error) {
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
func (t *tenure) catchUp(ctx context.Context) error {
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
func (t *tenure) transfer(ctx context.Context, id string, resign func() error) error {
	if err := t.prepareHeir(ctx, id); err != nil {
		return fmt.Errorf("elector: transfer %s to %q: %w", t.e.cfg.Election, id, err)
	}
	return resign()
}

// prepareHeir blocks until the candidate with the ID is next.
func (t *tenure) prepareHeir(ctx context.Context, id string) error {
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
func (t *tenure) name(ctx context.Context, heir *layout.Heir) error {
	return t.write(ctx, func(ctx context.Context) error {
		return t.revise(ctx, true, func(p *post) { p.heir = heir })
	})
}
