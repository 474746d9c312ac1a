package consul

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Checks returns the conditions as operations for the user's own transaction, which then
// writes only if the conditions hold at that instant.
//
//	checks, err := consul.Checks(ctx, g.Session, g.Conditions...)
//	…
//	ok, response, _, err := client.Txn().Txn(append(checks, &api.TxnOp{KV: …}), nil)
//
// client may be any client of the same datacenter whose token may read the entries. The
// session must be of this package (one behind backend.Share is).
//
// Except for enqueued entries, Checks distinguishes an entry from its successors by the index
// of its last write, which it reads on each call: call it right before each transaction.
//
// ErrCondition says that a condition does not hold now. A check that fails in the transaction
// says that a condition does not hold, or that the entry was written to meanwhile: try again,
// with fresh checks, until Checks or the transaction decides. Checks blocks while the
// session is suspended, until ctx ends.
func Checks(ctx context.Context, s *backend.Session, guards ...backend.Condition) (api.TxnOps, error) {
	return driver.Conditions(ctx, "consul: checks", s, guards, func(own *session) (api.TxnOps, error) {
		for _, g := range guards {
			own.learned.entries.Forget(g.Entry.Key)
		}
		p, err := (&commit{s: own, guards: guards}).compile(ctx)
		if err != nil {
			return nil, err
		}
		return p.all(), nil
	})
}

// guard adds the check of one condition.
func (c *commit) guard(ctx context.Context, p *plan, g backend.Condition, i int) error {
	e := g.Entry
	if !e.Exists() {
		return fmt.Errorf("%w: there is no entry in the guard for %s", backend.ErrCondition, e.Key)
	}
	hard := ref{role: roleGuard, op: i, key: e.Key}
	if g.Exact {
		p.condition(api.KVTxnOp{Verb: api.KVCheckIndex, Key: path(e.Key), Index: indexOf(e)}, hard)
		return nil
	}
	_, err := c.prove(ctx, p, e, hard)
	if errors.Is(err, backend.ErrNoEntry) {
		return fmt.Errorf("%w: %v", backend.ErrCondition, err)
	}
	return err
}

// prove adds the condition that this incarnation of e exists, and returns it as it is known. An
// enqueued entry is identified by its name, and by the session that holds it; any other by the index of
// its last write, which is learned, and may be outdated.
func (c *commit) prove(ctx context.Context, p *plan, e backend.Entry, r ref) (backend.Entry, error) {
	if id := owner(e.Key); id != "" {
		e.Session = id
		if c.s.learned.gone.Has(e.Key) {
			return e, backend.ErrNoEntry
		}
		if !p.proven[e.Key] {
			p.condition(api.KVTxnOp{Verb: api.KVCheckSession, Key: path(e.Key), Session: id}, r)
		}
		p.proven[e.Key] = true
		return e, nil
	}
	now, ok := c.s.learned.entry(e.Key, e.Rev)
	if !ok {
		var err error
		if now, err = c.s.get(ctx, e.Key); err != nil {
			return e, err
		}
		if now.Rev != e.Rev {
			return e, backend.ErrNoEntry
		}
	}
	if !p.proven[e.Key] {
		r.held = true
		p.condition(api.KVTxnOp{Verb: api.KVCheckIndex, Key: path(e.Key), Index: indexOf(now)}, r)
	}
	p.proven[e.Key] = true
	return now, nil
}
