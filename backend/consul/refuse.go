package consul

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// rolledBack takes the answer to a transaction that was rolled back.
func rolledBack(err error) (*api.TxnResponse, error) {
	var status api.StatusError
	var response api.TxnResponse
	if !errors.As(err, &status) || json.Unmarshal([]byte(status.Body), &response) != nil || len(response.Errors) == 0 {
		return nil, err
	}
	if _, null := whole(&response); null != nil {
		return nil, err
	}
	return &response, nil
}

// What the servers say in words only.
func denied(what string) bool {
	return strings.Contains(what, "Permission denied") || strings.Contains(what, "ACL not found")
}
func lockDelay(what string) bool { return strings.Contains(what, "due to lock delay") }
func missing(what string) bool   { return strings.Contains(what, "doesn't exist") }

func invalidSession(all api.TxnErrors) bool {
	return slices.ContainsFunc(all, func(e *api.TxnError) bool { return strings.Contains(e.What, "invalid session") })
}

// takeRefusal takes the servers' refusal of a transaction: nothing of it was done. It returns
// nil when it is worth another attempt, since what was wrong was ours: outdated
// knowledge, or missing ancestors. All operations are tried in their order, so that the
// first error is the one that is not due to another.
func (c *commit) takeRefusal(p *plan, all api.TxnErrors) error {
	if invalidSession(all) {
		c.s.Lose(errExpired)
		return c.s.LostError()
	}
	first := all[0]
	i := first.OpIndex
	if i < p.shift || i-p.shift >= len(p.conditionRefs)+len(p.opRefs) {
		return refusal(first)
	}
	err, r := refusal(first), p.ref(i)
	switch {
	case errors.Is(err, backend.ErrDenied):
		return err
	case lockDelay(first.What):
		return nil // of another tool's session: wait until it is over
	case r.held:
		c.s.learned.entries.Forget(r.key) // read again, and see
		return nil
	}
	switch r.role {
	case roleGuard:
		return as(backend.ErrCondition, err)
	case roleEntry:
		return as(backend.ErrNoEntry, err)
	case roleDir:
		return nil // somebody has made it: look again
	case roleParent:
		if c.ops[r.op].Kind == backend.OpCompareAndSet && missing(first.What) {
			c.deep = true
			return nil
		}
		return as(backend.ErrNoParent, err)
	}
	switch c.ops[r.op].Kind {
	case backend.OpCreateEphemeral:
		return as(backend.ErrExists, err)
	case backend.OpCompareAndSet:
		return as(backend.ErrConflict, err)
	}
	return err
}
