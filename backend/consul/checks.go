package consul

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Checks returns the conditions as operations for a transaction of the user's own: what is
// written with them is written only if the conditions hold at that instant.
//
//	checks, err := consul.Checks(ctx, g.Session, g.Conditions...)
//	…
//	ok, response, _, err := client.Txn().Txn(append(checks, &api.TxnOp{KV: …}), nil)
//
// client may be any of the same datacenter whose token may read the entries. The session
// must be of this package (one behind backend.Share is).
//
// What tells entries from their successors is, but for those that were enqueued, the
// index of their last write, which is read on each call: ask right before the
// transaction, for each one anew.
//
// ErrCondition says that a condition does not hold now. That a check fails in the transaction
// says that a condition does not hold, or that the entry was written to meanwhile: ask again,
// with fresh checks, until Checks or the transaction decides. Checks blocks while the
// session is suspended, until ctx ends.
func Checks(ctx context.Context, s *backend.Session, guards ...backend.Condition) (api.TxnOps, error) {
	own := driver.Of[*session](s)
	if own == nil {
		return nil, errors.New("consul: checks: the session is not of this package")
	}
	p, err := own.conditions(ctx, guards)
	if err != nil {
		return nil, fmt.Errorf("consul: checks: %w", err)
	}
	return p.all(), nil
}

func (s *session) conditions(ctx context.Context, guards []backend.Condition) (*plan, error) {
	if err := backend.CheckConditions(guards); err != nil {
		return nil, err
	}
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	for _, g := range guards {
		s.memory.forget(g.Entry.Key)
	}
	return (&commit{s: s, guards: guards}).compile(ctx)
}
