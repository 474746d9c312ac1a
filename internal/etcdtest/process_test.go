package etcdtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// The faults act on the client library, without a Backend.
func TestProcess(t *testing.T) {
	servers := Single(t)
	p := NewClient(t, servers.Addrs(), nil)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	put := func(key string, opts ...clientv3.OpOption) error {
		// As a commit does it.
		unfenced := clientv3.Compare(clientv3.CreateRevision("/a/x\x00nonce"), "=", 0)
		_, err := p.Client.Txn(ctx).If(unfenced).Then(clientv3.OpPut(key, "", opts...)).Commit()
		return err
	}
	count := func(key string) int64 {
		got := must.Get(p.Client.Get(ctx, key, clientv3.WithPrefix()))(t)
		return got.Count
	}

	// The operator makes and removes whole paths.
	require.NoError(t, PutAll(servers.Addrs(), "/a/b/c", []byte("x")))
	require.NoError(t, PutAll(servers.Addrs(), "/a/b/c", []byte("y")))
	require.NoError(t, PutAll(servers.Addrs(), "/ab", nil))
	assert.EqualValues(t, 4, count("/a"))

	// Wake-ups are held, and all else continues: other watches are made, too.
	n := must.Get(servers.Watches())(t)
	assert.Zero(t, n)
	first := p.Client.Watch(ctx, "/a/b/c")
	release := p.HoldWakeups()
	require.NoError(t, PutAll(servers.Addrs(), "/a/b/c", []byte("z")))
	second := p.Client.Watch(ctx, "/a/b/c", clientv3.WithRev(1))
	require.NoError(t, put("/a/x"))
	n = must.Get(servers.Watches())(t)
	assert.Equal(t, 2, n)
	assert.Equal(t, 2, p.WatchesMade())
	select {
	case <-first:
		t.Error("not held")
	case <-second:
		t.Error("not held")
	case <-time.After(100 * time.Millisecond):
	}
	release()
	assert.Len(t, (<-first).Events, 1)
	assert.Len(t, (<-second).Events, 3)

	// A lost reply means that the write was done, a lost request that it was not.
	lease := must.Get(p.Client.Grant(ctx, 60))(t)
	p.LoseReply(MatchKind(backend.OpCreateEphemeral))
	p.LoseRequest(MatchKind(backend.OpCompareAndSet))
	assert.Equal(t, codes.Unavailable, status.Code(put("/a/create", clientv3.WithLease(lease.ID))))
	assert.EqualValues(t, 1, count("/a/create"))
	assert.Equal(t, codes.Unavailable, status.Code(put("/a/put")))
	assert.EqualValues(t, 0, count("/a/put"))
	require.NoError(t, put("/a/put"))
	p.CutReply(MatchKind(backend.OpCreateEphemeral))
	require.Error(t, put("/a/another", clientv3.WithLease(lease.ID)))
	short, done := context.WithTimeout(ctx, 300*time.Millisecond)
	defer done()
	_, err := p.Client.Get(short, "/a")
	require.Error(t, err, "it is cut off")
	p.Expire()
	p.Resume()
	_, err = p.Client.KeepAliveOnce(ctx, lease.ID)
	require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)

	require.NoError(t, servers.Stop())
	require.NoError(t, servers.Start())
	require.NoError(t, DeleteAll(servers.Addrs(), "/a"))
	require.NoError(t, DeleteAll(servers.Addrs(), "/a"))
	got := must.Get(Operator(t, servers.Addrs()...).Get(ctx, "/", clientv3.WithPrefix()))(t)
	require.Len(t, got.Kvs, 1)
	assert.Equal(t, "/ab", string(got.Kvs[0].Key))
}
