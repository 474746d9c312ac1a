package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Cmps returns the conditions as comparisons for a transaction of the user's own: what is
// written with them is written only if the conditions hold at that instant.
//
//	cmps, err := etcd.Cmps(ctx, g.Session, g.Conditions...)
//	…
//	answer, err := client.Txn(ctx).If(cmps...).Then(clientv3.OpPut("/jobs/state", …)).Commit()
//
// client may be any client of the same cluster and in the same namespace, if it may
// read the entries. answer.Succeeded is false when a condition does not hold.
//
// The session must be of this package (one behind backend.Share is). Cmps takes no
// round trip and does not block. The conditions stay right for as long as they are kept;
// ErrCondition says that one of them can never hold.
func Cmps(ctx context.Context, s *backend.Session, guards ...backend.Condition) ([]clientv3.Cmp, error) {
	own := driver.Of[*session](s)
	if own == nil {
		return nil, errors.New("etcd: cmps: the session is not of this package")
	}
	p, err := own.conditions(ctx, guards)
	if err != nil {
		return nil, fmt.Errorf("etcd: cmps: %w", err)
	}
	return p.cmps, nil
}

func (s *session) conditions(ctx context.Context, guards []backend.Condition) (*plan, error) {
	if err := backend.CheckConditions(guards); err != nil {
		return nil, err
	}
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	return (&commit{s: s, guards: guards}).compile("")
}
