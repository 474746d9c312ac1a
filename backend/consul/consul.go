package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Executor = (*Backend)(nil)
	_ backend.Driver   = (*session)(nil)
	_ backend.Testator = (*session)(nil)
)

// A Backend opens sessions with Consul. Create one with New.
type Backend struct {
	client *api.Client
	cfg    Config
}

// New returns a Backend that uses the caller's client, which the caller may also use for other
// requests. It does not connect. The client, or Config.Watches, must not have a time limit for requests
// (http.Client.Timeout) below two minutes, since waits are requests that are answered late.
func New(client *api.Client, cfg Config) (*Backend, error) {
	if client == nil {
		return nil, errors.New("consul: the client is nil: make one with api.NewClient")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Backend{client: client, cfg: cfg.withDefaults(client)}, nil
}

// Client returns the client passed to New, for the user's own requests.
func (b *Backend) Client() *api.Client { return b.client }

// waitsApart reports whether blocking queries have connections of their own.
func (b *Backend) waitsApart() bool { return b.cfg.Watches != b.client }

// String returns "consul".
func (b *Backend) String() string { return "consul" }

// agentConnections is how many connections an agent accepts from one address by default: its
// limits.http_max_conns_per_client.
const agentConnections = 200

// Limits returns the session timeouts that may be asked for, and says that each wait takes a
// connection.
func (b *Backend) Limits() backend.Limits {
	if b.cfg.Check != 0 {
		return backend.Limits{MinTTL: MinCheck, MaxTTL: MaxSessionTimeout / 2, DefaultTTL: b.cfg.Check, Waits: agentConnections}
	}
	return backend.Limits{MinTTL: MinSessionTimeout, MaxTTL: MaxSessionTimeout, DefaultTTL: b.cfg.SessionTimeout, Waits: agentConnections}
}

// Open implements backend.Backend.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return driver.OpenApart(ctx, b, o, b.open)
}

// open tries again for a while if the token is refused: see errors.go.
func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	began, said := time.Now(), false
	for pause := (driver.Pause{}); ; said = true {
		s, err := b.openOnce(ctx, ttl)
		if !forbidden(err) || time.Since(began) > min(refusedFor(ttl), mostRefused) {
			return s, err
		}
		if !said {
			b.cfg.Logger.Warn("consul: the token is refused; trying again", "error", err)
		}
		if !pause.Wait(ctx) {
			return nil, fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
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

// create makes a session, and returns the earliest time at which its life began.
func (b *Backend) create(ctx context.Context, l lease) (id string, sent time.Time, err error) {
	body := map[string]any{
		"Name":     "elector",
		"Behavior": api.SessionBehaviorDelete,
		"TTL":      l.timeout.String(),
		// The client library leaves out a zero, which would mean 15 s.
		"LockDelay": "0s",
		// Without this the node's serfHealth would end the session at the first disturbance of the
		// gossip.
		"NodeChecks": []string{},
	}
	if l.check != "" { // the check is the agent's, and so is the node by default
		body["ServiceChecks"] = []api.ServiceCheck{{ID: l.check}}
	} else {
		body["Node"] = SessionNode
	}
	var made struct{ ID string }
	began := time.Now()
	for pause := (driver.Pause{}); ; {
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
		again := time.Since(began) < l.patience()
		switch {
		case again && l.check != "" && missingCheck(err): // the agent reports it to the servers on its own time
		case again && l.check == "" && missingNode(err): // until its first use
			if err = b.registerNode(ctx, l); err != nil {
				return "", sent, openError(ctx, err)
			}
		default:
			return "", sent, openError(ctx, err)
		}
		if !pause.Wait(ctx) {
			return "", sent, driver.ContextError(ctx)
		}
	}
}
