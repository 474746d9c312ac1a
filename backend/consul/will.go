package consul

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// WillSecret implements backend.Testator: it names the session and its health check, if it has one,
// which no other session's will may remove.
func (s *session) WillSecret() []byte { return secretOf(s.ID(), s.lease.check) }

// secretOf returns a session's secret. It ends with a checksum: without it a secret with a missing or
// wrong part would leave the check behind.
func secretOf(session, check string) []byte {
	text := session + " " + check
	return fmt.Appendf(nil, "%s %08x", text, crc32.ChecksumIEEE([]byte(text)))
}

// leaseOf returns what must be removed of a will's session.
func leaseOf(w backend.Will) (lease, error) {
	l := lease{ttl: w.TTL, timeout: w.TTL}
	if !isID(w.Session) {
		return l, errors.New("the will names no session of Consul's")
	}
	_, check, _ := strings.Cut(string(w.Secret), " ")
	check, _, _ = strings.Cut(check, " ")
	nonce, ok := strings.CutPrefix(check, checkPrefix)
	ours := check == "" || ok && len(nonce) == 16 && driver.IsHex(nonce)
	if !ours || !bytes.Equal(w.Secret, secretOf(w.Session, check)) {
		return l, errors.New("the will's secret is not that of this session")
	}
	l.check = check
	return l, nil
}

// Execute implements backend.Executor: it destroys the session, and then removes its health check if
// there is one. An agent other than the session's does not know the check, and the right to remove it
// may be missing: then the session's agent removes it, a minute and a half later.
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
