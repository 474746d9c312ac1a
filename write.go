package elector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// commit implements Term.Commit.
func (t *seat) commit(ctx context.Context, ops ...Op) ([]backend.Entry, error) {
	began := time.Now()
	var made []backend.Entry
	err := t.checkOps(ops)
	if err == nil {
		err = t.write(ctx, func(ctx context.Context) error {
			made, err = t.apply(ctx, ops)
			return err
		})
	}
	if err != nil {
		made, err = nil, fmt.Errorf("elector: commit for %s, token %d: %w", t.e.cfg.Election, t.claim.Token, err)
	}
	t.e.hooks.commit(CommitEvent{
		Context: ctx, Term: t.term, Began: began, Took: time.Since(began), Ops: len(ops), Err: err,
	})
	return made, err
}

// apply plans and commits until the plan is not outdated. Each repetition means that somebody else has
// written.
func (t *seat) apply(ctx context.Context, ops []Op) ([]backend.Entry, error) {
	sorted := inOrder(ops)
	planned, err := plan(ctx, t.session, sorted, false)
	for err == nil {
		var done []backend.Entry
		done, err = t.session.Commit(ctx, t.claim.Conditions, planned...)
		if err == nil {
			return asGiven(ops, done), nil
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

// asGiven sorts entries into the order of the ops.
func asGiven(ops []Op, entries []backend.Entry) []backend.Entry {
	at := make(map[string]backend.Entry, len(entries))
	for _, e := range entries {
		at[e.Key] = e
	}
	given := make([]backend.Entry, len(ops))
	for i, op := range ops {
		given[i] = at[op.key]
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
		// A process that was paused gets here before its timers have run.
		t.cancel(ErrSessionLost)
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
		known := t.seen()
		conditions := append(slices.Clone(t.claim.Conditions), backend.IfUnchanged(known))
		made, err := t.session.Commit(ctx, conditions, backend.Update(t.claim.Entry, payload))
		if err == nil {
			t.saw(made[0])
			return nil
		}
		unknown := errors.Is(err, backend.ErrIndeterminate)
		if !unknown && !errors.Is(err, backend.ErrCondition) || ctx.Err() != nil {
			return err
		}
		now, lookup := t.session.Get(ctx, known.Key)
		switch {
		case lookup == nil && now.Rev == known.Rev && now.Version != known.Version && bytes.Equal(now.Value, payload):
			t.saw(now)
			return nil // done: somebody in between sent it twice, or its reply was lost
		case unknown || errors.Is(lookup, backend.ErrNoEntry):
			return err
		case lookup != nil:
			return lookup
		case !now.Is(known) || now.Same(known) || t.claim.StillLeads != nil && !t.claim.StillLeads(now):
			return err // the claim is gone
		}
		t.saw(now)
	}
}

// renew publishes the value again whenever the strategy has a new payload.
func (t *seat) renew() {
	for t.claim.Renew(t.ctx) == nil {
		var retry backoff
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
