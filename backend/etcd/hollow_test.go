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
)

// One answer that has nothing in it, as a gateway may give, counts as none.
func TestHollowAnswers(t *testing.T) {
	var next atomic.Bool
	f := setUpOn(t, 20*time.Second, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				switch req.(type) {
				case *pb.RangeRequest, *pb.TxnRequest, *pb.LeaseGrantRequest, *pb.PutRequest:
					if next.CompareAndSwap(true, false) {
						return nil
					}
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
	}, sharedServer(t).Addr())
	own := f.enqueue(f.s)
	next.Store(true)
	_, err := f.s.Get(f.ctx, f.dir)
	require.NoError(t, err)
	next.Store(true)
	made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	require.NoError(t, err)
	next.Store(true)
	l, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Equal(t, []string{own.Key, made[0].Key}, l.Keys)
	next.Store(true)
	_, _, err = f.s.Survey(f.ctx, f.dir, nil)
	require.NoError(t, err)
	next.Store(true)
	require.NoError(t, f.s.Discard(f.ctx, own))
	next.Store(true)
	_, err = f.Backend.Open(f.ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
}

// What has the name of an enqueued entry is one, or nothing. So nobody makes anything else of
// such a name.
func TestNamesOfEntriesAreTheirs(t *testing.T) {
	f := setUp(t, 20*time.Second)
	key := f.dir + "/2-1-0123456789abcdef"
	for _, op := range []backend.Op{backend.CompareAndSet(key, nil, 0), backend.CreateEphemeral(key, nil)} {
		_, err := f.s.Commit(f.ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrBadKey)
		require.ErrorContains(t, err, "enqueued")
	}
}

// An answer to the end of a session that is none says nothing: Close asks again.
func TestHollowAnswerToClose(t *testing.T) {
	t.Parallel()
	var hollow atomic.Int64
	f := setUpOn(t, 20*time.Second, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if _, ok := req.(*pb.LeaseRevokeRequest); ok && hollow.Add(1) == 1 {
					return nil
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
	}, sharedServer(t).Addr())
	own := f.enqueue(f.s)
	require.NoError(t, f.s.Close(f.ctx))
	_, err := f.another(20*time.Second).s.Get(f.ctx, own.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
}
