package consul

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/internal/asynclog"
)

// The session TTLs that Consul's servers accept (session_ttl_min is 10 s by default), and a sensible
// minimum for a check's: see healthcheck.go.
const (
	MinSessionTimeout     = 10 * time.Second
	MaxSessionTimeout     = 24 * time.Hour
	DefaultSessionTimeout = 15 * time.Second
	MinCheck              = 2 * time.Second
)

// Config has the settings of a Backend. The zero value is ready. Addresses, TLS, the ACL token and the
// datacenter are those of the client passed to New.
type Config struct {
	// SessionTimeout is the TTL of sessions for which Open gets none, at least MinSessionTimeout. The
	// servers end a session that is not renewed after once to twice its TTL. Zero means
	// DefaultSessionTimeout.
	SessionTimeout time.Duration

	// Check, if not zero, ties each session to its own health check on the agent, with this TTL, at
	// least MinCheck: when the process dies, its entries go in that time. Open's TTL is then the
	// check's, and SessionTimeout is how long the entries stay when the agent is gone, too. The client
	// must stay with one agent: another one behind the same address does not know the check. See
	// healthcheck.go for the cost: a service "elector" in the catalog, and the right to register it.
	//
	// The session is then on the agent's node, and ends when that is taken out of the catalog, while
	// its owner may rely on it for 19/20 of SessionTimeout or of twice the Check, whichever is longer:
	// two terms are valid. By default that happens some six seconds after the agent, a server, was cut
	// off (autopilot's cleanup_dead_servers), and whenever the agent leaves. No token can be relied on
	// to let this backend detect it: "elector doctor" looks, and the package's comment has more.
	Check time.Duration

	// Watches, if not nil, is another client of the same agent, with its own connections
	// (http.Transport), for the requests that wait, and for the part of a Survey that leaves its
	// connection to a wait. Without it they take the connections of the client passed to New. If an agent
	// then accepts no more (http_max_conns_per_client), there may be none left for the heartbeats, and the
	// session is lost.
	Watches *api.Client

	// Logger gets messages about background work; by default nothing is logged.
	Logger *slog.Logger
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var errs []error
	if t := c.SessionTimeout; t != 0 && (t < MinSessionTimeout || t > MaxSessionTimeout) {
		errs = append(errs, fmt.Errorf("the SessionTimeout of %v is not between %v and %v, which is what Consul takes; Check makes for a shorter failover",
			t, MinSessionTimeout, MaxSessionTimeout))
	}
	if t := c.Check; t != 0 && (t < MinCheck || t > MaxSessionTimeout/2) {
		errs = append(errs, fmt.Errorf("the Check of %v is not between %v and %v", t, MinCheck, MaxSessionTimeout/2))
	}
	if len(errs) > 0 {
		return fmt.Errorf("consul: %w", errors.Join(errs...))
	}
	return nil
}

func (c Config) withDefaults(client *api.Client) Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.Watches = cmp.Or(c.Watches, client)
	c.Logger = asynclog.New(c.Logger)
	return c
}
