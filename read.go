package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

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
