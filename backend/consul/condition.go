package consul

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// condition adds what checks one condition.
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

// prove adds the condition that this incarnation of e stands, and returns it as it is
// known. What was enqueued is told by its name, and by the session that holds it; all
// else by the index of its last write, which is learned, and may be outdated.
func (c *commit) prove(ctx context.Context, p *plan, e backend.Entry, r ref) (backend.Entry, error) {
	if id := owner(e.Key); id != "" {
		e.Session = id
		if c.s.memory.isGone(e.Key) {
			return e, backend.ErrNoEntry
		}
		if !p.proven[e.Key] {
			p.condition(api.KVTxnOp{Verb: api.KVCheckSession, Key: path(e.Key), Session: id}, r)
		}
		p.proven[e.Key] = true
		return e, nil
	}
	now, ok := c.s.memory.entry(e.Key, e.Rev)
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
