// Package etcdtest runs real etcd servers for the conformance suites, with client processes whose
// links, requests, replies and watches can be broken, and an operator.
package etcdtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/asynclog/asynclogtest"
	"github.com/elector-go/elector/internal/etcdclient"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servicetest"
)

// A Process is one client process: its own client, whose connections go through its own proxies, one
// per server.
type Process struct {
	Client  *clientv3.Client
	Backend *etcd.Backend
	Servers []string // addresses behind the proxies
	*servicetest.Links
	*servicetest.Faults[*etcdserverpb.TxnRequest]

	t testing.TB

	mu     sync.Mutex
	leases []clientv3.LeaseID // granted, oldest first

	wakeups gate
	watches atomic.Int64 // made
}

// NewProcess makes a process. change, if it isn't nil, may alter its client's configuration.
func NewProcess(t testing.TB, servers []string, change func(*clientv3.Config)) *Process {
	t.Helper()
	p := NewClient(t, servers, change)
	p.Backend = NewBackend(t, p.Client)
	return p
}

// NewClient is NewProcess without a Backend.
func NewClient(t testing.TB, servers []string, change func(*clientv3.Config)) *Process {
	t.Helper()
	p := &Process{t: t, Servers: servers, Links: servicetest.NewLinks(t, servers, proxytest.ForTest)}
	// gRPC's error for a pending call.
	lost := status.Error(codes.Unavailable, "error reading from server: connection reset by the test")
	p.Faults = servicetest.NewFaults[*etcdserverpb.TxnRequest](p.Links, lost)
	p.wakeups.changed = sync.NewCond(&p.wakeups.mu)
	cfg := clientv3.Config{
		Endpoints: p.Addrs(),
		Logger:    zap.NewNop(),
		// They come after the client's own, so what is lost here is what its retries see.
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream),
			grpc.WithConnectParams(connecting),
		},
	}
	if change != nil {
		change(&cfg)
	}
	p.Client = must.Get(clientv3.New(cfg))(t)
	t.Cleanup(p.close)
	return p
}

// close closes the client, which always returns its cancelled context's error.
func (p *Process) close() {
	if err := etcdclient.Close(p.Client, 10*time.Second); err != nil && !errors.Is(err, context.Canceled) {
		p.t.Log(err)
	}
}

// NewBackend makes a backend with a client.
func NewBackend(t testing.TB, client *clientv3.Client) *etcd.Backend {
	t.Helper()
	return must.Get(etcd.New(client, etcd.Config{SessionTimeout: 10 * time.Second, Logger: asynclogtest.Stuck(t)}))(t)
}

// connecting makes clients come back in time, as etcd.New asks for: gRPC's own second attempt is a
// second after the first.
var connecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
	MinConnectTimeout: 20 * time.Second, // gRPC's own
}

// Leases returns the leases that the process was granted, oldest first.
func (p *Process) Leases() []clientv3.LeaseID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.leases)
}

// WatchesMade returns how many watches the servers have made for the process, counting those that were
// made again or are gone.
func (p *Process) WatchesMade() int { return int(p.watches.Load()) }

// Expire makes the servers end all sessions of the process, even if it is cut off. The process sees a
// real expiry: its entries are gone, and its lease is not found any more.
func (p *Process) Expire() {
	p.t.Helper()
	for _, lease := range p.Leases() {
		require.NoError(p.t, Revoke(p.Servers, lease))
	}
}

// unary sees every single call, and each attempt of the client.
func (p *Process) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if p.Throttled() {
		return rpctypes.ErrGRPCRequestTooManyRequests
	}
	if p.Denied() && strings.HasPrefix(method, "/etcdserverpb.KV/") {
		return rpctypes.ErrGRPCPermissionDenied
	}
	txn, ok := req.(*etcdserverpb.TxnRequest)
	if !ok {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if grant, ok := reply.(*etcdserverpb.LeaseGrantResponse); ok && err == nil {
			p.mu.Lock()
			p.leases = append(p.leases, clientv3.LeaseID(grant.ID))
			p.mu.Unlock()
		}
		return err
	}
	type answer struct {
		reply *etcdserverpb.TxnResponse // its own: the sender's must not be written to once the sender has gone
		err   error                     // lost with the reply
	}
	got, err := servicetest.Do(ctx, p.Faults, txn, func(ctx context.Context) (answer, error) {
		own := new(etcdserverpb.TxnResponse)
		return answer{own, invoke(ctx, method, req, own, cc, opts...)}, nil
	}, func(answer) {})
	switch {
	case err != nil && err == ctx.Err():
		return status.FromContextError(err).Err()
	case err != nil:
		return err
	}
	into := reply.(*etcdserverpb.TxnResponse)
	into.Header, into.Succeeded, into.Responses = got.reply.Header, got.reply.Succeeded, got.reply.Responses
	return got.err
}

// stream sees every stream when it is opened.
func (p *Process) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if p.Throttled() {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != etcdserverpb.Watch_Watch_FullMethodName {
		return s, err
	}
	return &watchStream{ClientStream: s, gate: &p.wakeups, made: &p.watches}, nil
}
