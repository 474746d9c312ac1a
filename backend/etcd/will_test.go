package etcd_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/wait"
)

// An answer that has nothing in it, as a gateway may give, confirms nothing.
func TestWillAtAHollowAnswer(t *testing.T) {
	f := setUp(t, 20*time.Second)
	e := f.enqueue(f.s)
	w, err := f.s.Will()
	require.NoError(t, err)
	var hollow atomic.Int32
	by := etcdtest.NewProcess(t, f.Servers, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if _, ok := req.(*pb.LeaseRevokeRequest); ok && hollow.Add(1) <= 3 {
					return nil
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
	})
	require.NoError(t, backend.Execute(f.ctx, by.Backend, w))
	assert.EqualValues(t, 4, hollow.Load())
	_, err = f.another(20*time.Second).s.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
}

// Whoever may not write a key of the session's may not end the session.
func TestWillWithoutTheRight(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	f := &fixture{t: t, ctx: ctx, Process: etcdtest.NewProcess(t, []string{server.Addr()}, as("ann")), dir: "/a/d"}
	f.s = f.open(20 * time.Second)
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
	f.enqueue(f.s)
	w, err := f.s.Will()
	require.NoError(t, err)
	stranger := etcdtest.NewProcess(t, []string{server.Addr()}, as("bob"))
	require.ErrorIs(t, backend.Execute(ctx, stranger.Backend, w), backend.ErrDenied)
	assert.Equal(t, backend.Live, f.s.State())
	require.NoError(t, backend.Execute(ctx, etcdtest.NewProcess(t, []string{server.Addr()}, as("ann")).Backend, w))
}
