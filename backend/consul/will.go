package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// WillSecret implements backend.Testator: it is nil, or names the session and its health check, which
// no other session's will shall remove.
func (s *session) WillSecret() []byte {
	if s.lease.check == "" {
		return nil
	}
	return []byte(s.ID() + " " + s.lease.check)
}

// leaseOf returns what is to be removed of a will's session.
func leaseOf(w backend.Will) (lease, error) {
	l := lease{ttl: w.TTL, timeout: w.TTL}
	if !isID(w.Session) {
		return l, errors.New("the will names no session of Consul's")
	}
	if len(w.Secret) == 0 {
		return l, nil
	}
	session, check, _ := strings.Cut(string(w.Secret), " ")
	nonce, ok := strings.CutPrefix(check, checkPrefix)
	if session != w.Session || !ok || len(nonce) != 16 || !driver.IsHex(nonce) {
		return l, errors.New("the will's secret names no health check of this session")
	}
	l.check, l.service = check, check
	return l, nil
}

// Execute implements backend.Executor: it destroys the session, and then removes its health check if
// there is one. Another agent than that of the session's process does not know the check, and
// the right to remove it may be short: then that agent removes it, a minute and a half later.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	l, err := leaseOf(w)
	if err != nil {
		return err
	}
	if err = b.destroy(ctx, w.Session, l); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w (%v)", driver.ContextError(ctx), err)
		}
		return answerError(err)
	}
	b.abandon(l)
	return nil
}
