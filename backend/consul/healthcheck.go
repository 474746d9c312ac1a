package consul

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/driver"
)

const (
	// checkService is the service whose instances carry the sessions' checks.
	checkService = "elector"
	// checkPrefix and 16 hex digits are the ID of a check, and of its instance.
	checkPrefix = checkService + "-"
	// checkReserve is how much longer a check's TTL at the agent is than the session's: over a restart
	// the agent keeps the end of it in whole seconds.
	checkReserve = time.Second
	// checkReaped is when the agent removes what a crashed process has left; it does not accept less.
	checkReaped = time.Minute
)

var errNoCheck = fmt.Errorf("the agent does not know its health check any more")

// register registers a check and passes it for the first time.
//
// A session that is tied to a health check ends as soon as the servers hear that the check is critical. It is
// never critical before the window ends, except for what DESIGN.md, "Health checks", calls not covered. The first
// pass comes before the session: until then a restart of the agent makes the check critical at once.
//
// It is a check of a service, not of the node: a critical check of the node would take all of the node's
// services out of discovery when a candidate crashes. The instance of a process that has crashed stays
// for a minute and a half, as critical; the agent removes it.
func (b *Backend) register(ctx context.Context, ttl time.Duration) (lease, error) {
	id := checkPrefix + fmt.Sprintf("%016x", driver.NewNonce())
	l := lease{ttl: ttl, timeout: max(b.cfg.SessionTimeout, 2*ttl), check: id}
	registration := &api.AgentServiceRegistration{
		ID:   id,
		Name: checkService,
		Check: &api.AgentServiceCheck{
			CheckID:                        id,
			Name:                           "elector session",
			TTL:                            (ttl + checkReserve).String(),
			Status:                         api.HealthPassing,
			DeregisterCriticalServiceAfter: checkReaped.String(),
		},
	}
	_, err := bounded(ctx, l.patience(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.client.Agent().ServiceRegisterOpts(registration, api.ServiceRegisterOpts{}.WithContext(ctx))
	})
	if err == nil {
		l.sent = time.Now()
		_, err = bounded(ctx, l.patience(), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, b.pass(ctx, l)
		})
	}
	if err != nil {
		b.abandon(l)
		return l, openError(ctx, err)
	}
	return l, nil
}

// pass passes the check.
func (b *Backend) pass(ctx context.Context, l lease) error {
	err := b.client.Agent().UpdateTTLOpts(l.check, "", api.HealthPassing, new(api.QueryOptions).WithContext(ctx))
	if code(err) == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errNoCheck, err)
	}
	return err
}

// deregister removes the check, if there is one.
func (b *Backend) deregister(ctx context.Context, l lease) error {
	if l.check == "" {
		return nil
	}
	return b.client.Agent().ServiceDeregisterOpts(l.check, new(api.QueryOptions).WithContext(ctx))
}

// abandon removes the check of a session that is over, or was not opened. If that fails the agent does
// it later.
func (b *Backend) abandon(l lease) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := b.deregister(ctx, l); err != nil {
		b.cfg.Logger.Debug("consul: the health check of a session that is over stays until the agent removes it", "error", err)
	}
}

// missingCheck reports whether the servers have not heard of a session's check yet.
func missingCheck(err error) bool { return strings.Contains(err.Error(), "Missing check") }
