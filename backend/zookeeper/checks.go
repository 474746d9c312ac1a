package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Checks returns the conditions as check operations for a transaction of the user's own:
// what is written with them is written only if the conditions hold at that instant.
//
//	checks, err := zookeeper.Checks(ctx, g.Session, g.Conditions...)
//	…
//	_, err = conn.Multi(append(checks, &zk.SetDataRequest{Path: "/jobs/state", …})...)
//
// conn may be any connection to the same ensemble, such as the user's own, if it may
// read the entries. Each check is a *zk.CheckVersionRequest, with the server's path:
// Config.Chroot is in it.
//
// The session must be of this package (one behind backend.Share is). Entries that
// were enqueued, and have not been written to since, cost no round trip. What tells other
// entries from their successors is a version, which is read on each call: ask right before
// the transaction, for each one anew.
//
// ErrCondition says that a condition does not hold now. That a check fails in the transaction
// (zk.ErrNoNode or zk.ErrBadVersion) says that a condition does not hold, or that meanwhile
// somebody has written to its entry, or created another in the same directory: ask again,
// with fresh checks, until Checks or the transaction decides. Checks blocks while the
// session is suspended, until ctx ends.
func Checks(ctx context.Context, s *backend.Session, guards ...backend.Condition) ([]any, error) {
	own := driver.Of[*session](s)
	if own == nil {
		return nil, errors.New("zookeeper: checks: the session is not of this package")
	}
	m, err := own.conditions(ctx, guards)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: checks: %w", err)
	}
	return m.requests(), nil
}

func (s *session) conditions(ctx context.Context, guards []backend.Condition) (*multi, error) {
	if err := backend.CheckConditions(guards); err != nil {
		return nil, err
	}
	if _, err := s.awaitLive(ctx, 0); err != nil {
		return nil, err
	}
	c, m := &commit{s: s, guards: guards, anew: true}, newMulti()
	for _, g := range guards {
		if err := c.guard(ctx, m, g); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Entry.Key, err)
		}
	}
	return m, nil
}
