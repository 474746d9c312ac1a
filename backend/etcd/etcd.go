package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Executor = (*Backend)(nil)
	_ backend.Driver   = (*session)(nil)
	_ backend.Testator = (*session)(nil)
)

// A Backend opens sessions with an etcd cluster. Make it with New.
type Backend struct {
	client *clientv3.Client
	cfg    Config
	lines  lines

	reconnects reconnects
}

// New returns a Backend on the user's own client, with its TLS, credentials and namespace. The
// caller closes the client, after the sessions. New does not connect.
//
// Settings of the client matter to sessions; the example has all of them, with credentials:
//
//   - DialKeepAliveTime and DialKeepAliveTimeout: without them the client does not notice that a link
//     is dead. gRPC accepts no time below 10 s. Use a fraction of the session timeout for the timeout.
//   - grpc.WithConnectParams in DialOptions, with a MaxDelay of a fraction of the session timeout:
//     a session that was cut off comes back in time. Otherwise the pauses between attempts to
//     connect grow to two minutes.
//   - MaxUnaryRetries: with 1 the client sends each transaction once. Otherwise it resends one that
//     was answered with Canceled or DeadlineExceeded, as proxies do, and may have been done. (A client
//     with a password needs more if authentication is switched on while it is in use.)
//   - Behind a proxy, the stream interceptor Calm, which turns Internal into Unavailable: otherwise
//     a watch that has failed with Internal is made again without a pause.
//   - With a password, DialTimeout: otherwise clientv3.New blocks for as long as no server answers.
//
// If the client has several endpoints, the Backend dials one of them once more, for the heartbeats of
// all its sessions. It closes that connection with the last session, or with the client.
//
// Close the client after all electors. If it is closed before, its sessions are lost at once, and their
// entries stay until the leases expire.
func New(client *clientv3.Client, cfg Config) (*Backend, error) {
	if client == nil {
		return nil, errors.New("etcd: new: no client given: make one with clientv3.New")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Backend{client: client, cfg: cfg.withDefaults(), lines: lines{client: client}}, nil
}

// Client returns the client passed to New, for the user's own requests.
func (b *Backend) Client() *clientv3.Client { return b.client }

// String returns "etcd".
func (b *Backend) String() string { return "etcd" }

// Limits returns the session timeouts that may be asked for.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: MinSessionTimeout, MaxTTL: MaxSessionTimeout, DefaultTTL: b.cfg.SessionTimeout}
}

// Open implements backend.Backend. It returns ErrUnavailable if no server answers within the requested
// timeout; at once if no TLS connection is possible; and within a second if all servers refuse to be
// connected to, are not found or are something else. The error names the endpoints and says why the
// last connection failed; finding that out takes at most a tenth of a second more.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return driver.OpenApart(ctx, b, o, b.open)
}

func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	if b.client.Ctx().Err() != nil {
		return nil, errClientClosed // the client would try a hundred times by itself
	}
	within, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	asking, stop := context.WithCancelCause(within)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() { b.watchDialing(asking, min(ttl/20, refusedPatience/5), stop) })
	began, said := time.Now(), false
	for pause := (driver.Pause{}); ; {
		granted, err := ask(asking, 1, ttl/4, func(ctx context.Context) (grant, error) {
			sent := time.Now()
			// If the reply is lost, a lease without keys is left, which expires.
			lease, err := b.client.Lease.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
			if err == nil && (lease.ID <= 0 || lease.TTL <= 0) {
				err = errHollow
			}
			return grant{lease, sent}, err
		})
		switch {
		case err == nil:
			return b.start(granted.lease, granted.sent), nil
		case errors.Is(context.Cause(asking), errHopeless), errors.Is(err, context.DeadlineExceeded):
			end := backend.ErrUnavailable
			if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
				<-ctx.Done() // its timer may be late
			}
			if ctx.Err() != nil {
				end = driver.ContextError(ctx)
			}
			return nil, fmt.Errorf("%w: %s", end, b.unanswered(b.client.Ctx()))
		case errors.Is(err, context.Canceled) && ctx.Err() != nil:
			return nil, driver.ContextError(ctx)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
		case passing(err) && mean(err).Sentinel != backend.ErrUnavailable && time.Since(began) < ttl/2: // the caller must know the others
			if !said {
				b.cfg.Logger.Info("etcd: no session is granted; trying again", "error", err)
			}
			said = true
			pause.Wait(asking)
			continue
		}
		return nil, answerError(err)
	}
}

// A grant is a lease that was requested at sent.
type grant struct {
	lease *clientv3.LeaseGrantResponse
	sent  time.Time
}

// unansweredPatience is how long Open may take to find out why it got no answer.
const unansweredPatience = 100 * time.Millisecond

// unanswered names the endpoints that the client has asked in vain, and says why its last connection
// failed. The client does not report that, as it tries again until ctx ends: gRPC reports it to one
// request that is not tried again.
func (b *Backend) unanswered(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, unansweredPatience)
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
	if code == codes.Unavailable { // the connection broke during this request
		return told + ": " + text
	}
	return told
}

// errHopeless: no server can be reached, and waiting in this Open changes nothing.
var errHopeless = errors.New("no connection can be made")

// refusedPatience is how long all servers may refuse connections, as one that restarts does.
const refusedPatience = 500 * time.Millisecond

// watchDialing calls stop with errHopeless once the client has no connection because one side does not
// trust the other's certificate or does not use TLS, or because for refusedPatience no server could be
// dialled or none spoke gRPC. It then returns; it also returns when ctx ends.
func (b *Backend) watchDialing(ctx context.Context, every time.Duration, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var failing time.Time // since when that holds; zero if it does not
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		why := ""
		if b.client.ActiveConnection().GetState() == connectivity.TransientFailure { // else there is nothing to ask
			why = b.unanswered(ctx)
		}
		fails := strings.Contains(why, "Error while dialing") || strings.Contains(why, "error reading server preface") // gRPC says this once all have failed
		switch {
		case !fails:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		}
		if strings.Contains(why, "tls: ") || !failing.IsZero() && time.Since(failing) >= refusedPatience {
			stop(errHopeless)
			return
		}
	}
}

// connectionFailed is the text that gRPC writes before the reason.
const connectionFailed = `connection error: desc = "`
