package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// WillSecret implements backend.Testator: the lease's ID is enough.
func (s *session) WillSecret() []byte { return nil }

// Execute implements backend.Executor: it revokes the lease. With authentication that requires the
// right to write all keys of the session.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	lease, ok := parseSession(w.Session)
	switch {
	case !ok:
		return errors.New("the will names no lease")
	case len(w.Secret) > 0:
		return errors.New("the will has a secret, which none of etcd's has")
	}
	for pause := (driver.Pause{}); ; {
		err := revoke(ctx, b.client, lease)
		if err == nil || ctx.Err() == nil && !passing(err) {
			return answerError(err)
		}
		backend.Tried(ctx, err)
		if !pause.Wait(ctx) {
			return fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
		}
	}
}

// Rehearse implements backend.Rehearser: it asks for a lease that does not exist. The first call of
// gRPC in a process takes some 10 ms of processor time.
func (b *Backend) Rehearse(ctx context.Context) error {
	_, err := b.client.Lease.TimeToLive(ctx, math.MaxInt64)
	return answerError(err)
}
