package consul

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// rolledBack parses the reply to a transaction that was rolled back.
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

// What the servers say only in words.
func denied(what string) bool {
	return strings.Contains(what, "Permission denied") || strings.Contains(what, "ACL not found")
}
func lockDelay(what string) bool { return strings.Contains(what, "due to lock delay") }
func missing(what string) bool   { return strings.Contains(what, "doesn't exist") }

func invalidSession(all api.TxnErrors) bool {
	return slices.ContainsFunc(all, func(e *api.TxnError) bool { return strings.Contains(e.What, "invalid session") })
}

// takeRefusal evaluates the servers' refusal of a transaction, of which nothing was done. It returns
// nil if another attempt is worthwhile, since the fault was ours: outdated knowledge, or missing
// ancestors. All operations are tried in order, so the first error is not due to another.
func (c *commit) takeRefusal(p *plan, all api.TxnErrors) error {
	if invalidSession(all) {
		return c.s.LostBy(errExpired)
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
		c.s.learned.entries.Forget(r.key) // read it again
		return nil
	}
	switch r.role {
	case roleGuard:
		return as(backend.ErrCondition, err)
	case roleEntry:
		return as(backend.ErrNoEntry, err)
	case roleDir:
		return nil // somebody has created it: read again
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
