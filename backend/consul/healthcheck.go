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
// A session that is tied to a health check ends as soon as the servers hear that the check is critical.
// A TTL check becomes critical when it was not passed for its TTL; the agent then reports that to the
// servers at once, unless its last report to them has failed: then it may wait for up to half a minute.
// So a crash costs the check's TTL, and only right after a fault of the servers up to twice the
// session's, of ten seconds or more.
//
// It keeps to the trust window because the agent's timer restarts at the RECEIPT of each pass, and a
// pass counts only if it was answered before the window's end, when the timer cannot have run out yet.
// What else may make it critical, and why not too early:
//
//   - The agent is restarted. At each pass it has written to disk until when the check is good. If
//     that time is not over it restores the check as it was, else as critical. The time is in whole
//     seconds, cut off, hence checkReserve. Before the first pass there is no such file, and a restart
//     makes the check critical at once: so the first pass comes before the session. The time on disk is
//     wall-clock time: a clock that is set forward while the agent is down ends the session that much
//     earlier. That is not covered.
//   - "consul reload" removes the checks and restores them as they were, and does not know them in
//     between: see beat. It does not report that to the servers, unless the agent is just about to
//     bring them up to date: then the session ends. That is not covered.
//   - The agent dies, or is cut off from the servers: nothing is reported to the servers. Renewals of
//     the session fail as they go through the same agent, so it is lost when its window ends, which is
//     before its own TTL ends, at which it goes at the servers.
//   - The agent's data is wiped, or it has none (-dev): the check goes with the restart, and the
//     session at once. That is not covered, nor is the removal of the agent's node from the catalog:
//     see the package's doc.
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
