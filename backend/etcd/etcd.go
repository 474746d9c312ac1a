package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

const (
	// DefaultSessionTimeout is asked for where nothing else is said.
	DefaultSessionTimeout = 10 * time.Second
	// MinSessionTimeout and MaxSessionTimeout bound what may be asked for. Servers
	// grant no less than 3/2 of their election timeout, 2 s by default.
	MinSessionTimeout = 2 * time.Second
	MaxSessionTimeout = 24 * time.Hour
	// DefaultMaxOps is the server's own default of --max-txn-ops.
	DefaultMaxOps = 128
	// DefaultMaxRequest is the server's own default of --max-request-bytes.
	DefaultMaxRequest = 3 << 19
)

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Driver  = (*session)(nil)
)

// Config says what a Backend does. Its zero value is ready.
type Config struct {
	// SessionTimeout is asked for when OpenOptions.TTL is zero; by default
	// DefaultSessionTimeout. Leases count in whole seconds: it is rounded up. The
	// server may grant another one.
	SessionTimeout time.Duration

	// MaxOps and MaxRequest are what the servers take in one transaction: conditions
	// or operations, and bytes. Set them where the servers are run with other values
	// of --max-txn-ops and --max-request-bytes. By default DefaultMaxOps and
	// DefaultMaxRequest. A client that has MaxCallSendMsgSize below MaxRequest refuses by
	// itself.
	MaxOps, MaxRequest int

	// Logger gets what goes on in the background; by default nothing is logged.
	Logger *slog.Logger
}

// Validate reports all that is wrong at once.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t := c.SessionTimeout; t != 0 && (t < MinSessionTimeout || t > MaxSessionTimeout) {
		fault("SessionTimeout: %v is not between %v and %v", t, MinSessionTimeout, MaxSessionTimeout)
	}
	if c.MaxOps < 0 {
		fault("MaxOps: %d is negative", c.MaxOps)
	}
	if c.MaxRequest < 0 {
		fault("MaxRequest: %d is negative", c.MaxRequest)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("etcd: config: %w", errors.Join(errs...))
}

func (c Config) withDefaults() Config {
	if c.SessionTimeout == 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.MaxOps == 0 {
		c.MaxOps = DefaultMaxOps
	}
	if c.MaxRequest == 0 {
		c.MaxRequest = DefaultMaxRequest
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Backend opens sessions with an etcd cluster. Make it with New.
type Backend struct {
	client *clientv3.Client
	cfg    Config
	lines  lines
}

// New returns a Backend on the user's own client, with its TLS, credentials and
// namespace. The caller closes the client, after the sessions. New does not
// connect.
//
// Three settings of the client matter to sessions. It notices by itself that a link is dead
// only with DialKeepAliveTime and DialKeepAliveTimeout: set them to a fraction of the
// session timeout. And it waits longer and longer between attempts to connect, up to two
// minutes: grpc.WithConnectParams in DialOptions, with a MaxDelay of a fraction of the
// session timeout, has a session that was cut off come back in time. And it sends a
// transaction again by itself that was answered with Canceled or DeadlineExceeded, as proxies
// do, and may have been done: MaxUnaryRetries: 1 has it send each once. (One with a password
// needs more when authentication is switched on while it is there.)
//
// A client with several endpoints dials one of them once more, for the heartbeats of all
// sessions of this Backend. That connection is closed with the last session, or the client.
func New(client *clientv3.Client, cfg Config) (*Backend, error) {
	if client == nil {
		return nil, errors.New("etcd: new: no client given: make one with clientv3.New")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Backend{client: client, cfg: cfg.withDefaults(), lines: lines{client: client}}, nil
}

// String returns "etcd".
func (b *Backend) String() string { return "etcd" }

// Limits tells which session timeouts may be asked for.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: MinSessionTimeout, MaxTTL: MaxSessionTimeout, DefaultTTL: b.cfg.SessionTimeout}
}

// Open implements backend.Backend. Servers that do not answer within the timeout
// asked for are ErrUnavailable. The error names the endpoints, and why the last connection
// failed; to find that out takes a tenth of a second more at most.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := driver.Apart(func() (*session, error) { return b.open(ctx, o.TTL) })
	if err != nil {
		return nil, err
	}
	return driver.EachApart(backend.NewSession(b.String(), s)), nil
}

func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	if ttl == 0 {
		ttl = b.cfg.SessionTimeout
	}
	if ttl < MinSessionTimeout || ttl > MaxSessionTimeout {
		return nil, fmt.Errorf("etcd: open: TTL of %v is not between %v and %v", ttl, MinSessionTimeout, MaxSessionTimeout)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("etcd: open: %w", driver.ContextError(ctx))
	}
	if b.client.Ctx().Err() != nil {
		return nil, errors.New("etcd: open: the client is closed") // it would try a hundred times by itself
	}
	asking, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	began, said := time.Now(), false
	for p := newPause(); ; {
		granted, err := hedged(asking, ttl/4, func(ctx context.Context) (grant, error) {
			sent := time.Now()
			// When the reply is lost a lease without keys is left, which ends by itself.
			lease, err := b.client.Lease.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
			if err == nil && (lease.ID <= 0 || lease.TTL <= 0) {
				err = errHollow
			}
			return grant{lease, sent}, err
		})
		switch {
		case err == nil:
			return b.start(granted.lease, granted.sent), nil
		case errors.Is(err, context.Canceled) && ctx.Err() != nil:
			return nil, fmt.Errorf("etcd: open: %w", driver.ContextError(ctx))
		case errors.Is(err, context.DeadlineExceeded):
			end := down
			if ctx.Err() != nil {
				end = driver.ContextError(ctx)
			}
			return nil, fmt.Errorf("etcd: open: %w: %s", end, b.unanswered())
		case ctx.Err() != nil:
			return nil, fmt.Errorf("etcd: open: %w: %w", driver.ContextError(ctx), err)
		case passing(err) && mean(err).as != down && time.Since(began) < ttl/2: // others are left to the caller, who is to know
			if !said {
				b.cfg.Logger.Info("etcd: no session is granted; trying again", "error", err)
			}
			said = true
			p.wait(asking)
			continue
		}
		return nil, fmt.Errorf("etcd: open: %w", answerError(err))
	}
}

// A grant is a lease that was asked for at sent.
type grant struct {
	lease *clientv3.LeaseGrantResponse
	sent  time.Time
}

// unansweredPatience is how long Open may take to find out why it got no answer.
const unansweredPatience = 100 * time.Millisecond

// unanswered tells whom the client has asked in vain, and why its last connection failed. The
// client keeps that to itself, as it tries again until ctx ends: gRPC tells it to one request that
// is not tried again.
func (b *Backend) unanswered() string {
	ctx, cancel := context.WithTimeout(b.client.Ctx(), unansweredPatience)
	defer cancel()
	told := "no answer in time from " + strings.Join(b.client.Endpoints(), ", ")
	_, err := pb.NewMaintenanceClient(b.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err == nil {
		return told
	}
	text, code := said(err)
	if _, failure, ok := strings.Cut(text, connectionFailed); ok {
		return told + ": " + strings.TrimSuffix(failure, `"`)
	}
	if code == codes.Unavailable { // the connection broke under this very request
		return told + ": " + text
	}
	return told
}

// connectionFailed is what gRPC says before the reason.
const connectionFailed = `connection error: desc = "`
