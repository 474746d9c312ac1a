package consul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Driver  = (*session)(nil)
)

// What Consul's servers take for a session's TTL (session_ttl_min is 10 s by
// default), and what is sensible for a check's: see check.go.
const (
	MinSessionTimeout     = 10 * time.Second
	MaxSessionTimeout     = 24 * time.Hour
	DefaultSessionTimeout = 15 * time.Second
	MinCheck              = 2 * time.Second
)

// Config has the settings of a Backend. The zero value is fine. Addresses, TLS, the
// ACL token and the datacenter are those of the client that New is given.
type Config struct {
	// SessionTimeout is the TTL of sessions for which Open is not told any, from
	// MinSessionTimeout. The servers end a session that is not renewed after once to
	// twice its TTL. Zero means DefaultSessionTimeout.
	SessionTimeout time.Duration

	// Check, if not zero, ties each session to a health check of its own on the
	// agent, with this TTL, from MinCheck: when the process dies, its entries go in
	// that time. Open's TTL is then that of the check, and SessionTimeout how long the
	// entries stay when the agent is gone, too. The client has to stay with one agent: any
	// other behind the same address does not know the check. See check.go for what it
	// costs: a service "elector" in the catalog, and the right to register it.
	Check time.Duration

	// Watches, if not nil, is another client of the same agent, with connections of its own
	// (http.Transport), for the requests that wait. Without it they take those of the client that
	// New is given. Where an agent then takes no more connections (http_max_conns_per_client),
	// there may be none left for the heartbeats, and the session is lost.
	Watches *api.Client

	// Logger gets what goes on in the background; by default nothing is logged.
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

// A Backend opens sessions with Consul. Make it with New.
type Backend struct {
	client *api.Client
	cfg    Config
}

// New returns a Backend that uses the caller's client, and leaves it to the caller
// what it does else. It does not connect. The client, or Config.Watches, must not have a time
// limit for requests (http.Client.Timeout) below two minutes, since waiting is done by requests
// that are answered late.
func New(client *api.Client, cfg Config) (*Backend, error) {
	if client == nil {
		return nil, errors.New("consul: the client is nil: make one with api.NewClient")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = DefaultSessionTimeout
	}
	if cfg.Watches == nil {
		cfg.Watches = client
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Backend{client: client, cfg: cfg}, nil
}

// String returns "consul".
func (b *Backend) String() string { return "consul" }

// Limits tells which session timeouts may be asked for.
func (b *Backend) Limits() backend.Limits {
	if b.cfg.Check != 0 {
		return backend.Limits{MinTTL: MinCheck, MaxTTL: MaxSessionTimeout / 2, DefaultTTL: b.cfg.Check}
	}
	return backend.Limits{MinTTL: MinSessionTimeout, MaxTTL: MaxSessionTimeout, DefaultTTL: b.cfg.SessionTimeout}
}

// Open implements backend.Backend.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	limits := b.Limits()
	ttl := o.TTL
	if ttl == 0 {
		ttl = limits.DefaultTTL
	}
	if ttl < limits.MinTTL || ttl > limits.MaxTTL {
		return nil, fmt.Errorf("consul: open: TTL of %v is not between %v and %v", ttl, limits.MinTTL, limits.MaxTTL)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("consul: open: %w", driver.ContextError(ctx))
	}
	s, err := driver.Apart(func() (*session, error) { return b.open(ctx, ttl) })
	if err != nil {
		return nil, fmt.Errorf("consul: open: %w", err)
	}
	return driver.EachApart(backend.NewSession(b.String(), s)), nil
}

// open tries again for a while if the token is refused: see errors.go.
func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	began := time.Now()
	for pause, said := newPause(), false; ; said = true {
		s, err := b.openOnce(ctx, ttl)
		if !forbidden(err) || time.Since(began) > min(refusedFor(ttl), mostRefused) {
			return s, err
		}
		if !said {
			b.cfg.Logger.Warn("consul: the token is refused; trying again", "error", err)
		}
		if why := pause.wait(ctx); why != nil {
			return nil, fmt.Errorf("%w: %w", why, err)
		}
	}
}

func (b *Backend) openOnce(ctx context.Context, ttl time.Duration) (*session, error) {
	lease := lease{ttl: ttl, timeout: ttl}
	if b.cfg.Check != 0 {
		var err error
		if lease, err = b.register(ctx, ttl); err != nil {
			return nil, err
		}
	}
	id, sent, err := b.create(ctx, lease)
	if err != nil {
		if lease.check != "" {
			b.abandon(lease)
		}
		return nil, err
	}
	return newSession(b, id, lease, sent), nil
}

// create makes a session, and returns when its life began at the earliest.
func (b *Backend) create(ctx context.Context, l lease) (id string, sent time.Time, err error) {
	body := map[string]any{
		"Name":     "elector",
		"Behavior": api.SessionBehaviorDelete,
		"TTL":      l.timeout.String(),
		// The client library leaves out a zero, which would mean 15 s.
		"LockDelay": "0s",
		// Without this the node's serfHealth would end the session at the first
		// hiccup of the gossip.
		"NodeChecks": []string{},
	}
	if l.check != "" {
		body["ServiceChecks"] = []api.ServiceCheck{{ID: l.check}}
	}
	var made struct{ ID string }
	for pause := newPause(); ; {
		sent = time.Now()
		_, err = bounded(ctx, l.patience(), func(ctx context.Context) (*api.WriteMeta, error) {
			return b.client.Raw().Write("/v1/session/create", body, &made, new(api.WriteOptions).WithContext(ctx))
		})
		if err == nil && made.ID == "" {
			err = errors.New("the answer has no session in it")
		}
		if err == nil {
			if l.check != "" {
				sent = l.sent
			}
			return made.ID, sent, nil
		}
		// The agent tells the servers of the check on its own time.
		if l.check == "" || !missingCheck(err) || time.Since(l.sent) > l.patience() {
			return "", sent, openError(ctx, err)
		}
		if err := pause.wait(ctx); err != nil {
			return "", sent, err
		}
	}
}
