package etcdtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// oneTry bounds one attempt of an operator's action; servers may be starting.
const oneTry = 10 * time.Second

// Operator returns a separate client of the servers, as another tool would have.
func Operator(t testing.TB, servers ...string) *clientv3.Client {
	t.Helper()
	client := must.Get(newBare(servers))(t)
	t.Cleanup(func() { _ = client.Close() }) // it returns only its cancelled context's error
	return client
}

// newBare makes a client that connects to the servers, and not to a proxy from the environment for
// addresses that are not on the loopback.
func newBare(servers []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: servers, Logger: zap.NewNop(), DialOptions: append(opts, grpc.WithNoProxy())})
}

// operate does something with a new client, which has no back-off to wait for, and repeats it if no
// server could do it.
func operate(servers []string, do func(context.Context, *clientv3.Client) error) error {
	deadline := time.Now().Add(wait.Patience)
	for {
		err := once(servers, do)
		transient := status.Code(err) == codes.Unavailable || errors.Is(err, context.DeadlineExceeded)
		var etcd rpctypes.EtcdError
		if errors.As(err, &etcd) {
			transient = etcd.Code() == codes.Unavailable
		}
		if !transient || time.Now().After(deadline) {
			return err
		}
	}
}

func once(servers []string, do func(context.Context, *clientv3.Client) error) error {
	client, err := newBare(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	return do(ctx, client)
}

// Revoke ends a lease; one that is over is no error.
func Revoke(servers []string, lease clientv3.LeaseID) error {
	return operate(servers, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Revoke(ctx, lease)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return err
	})
}

// Stored counts all keys, and the bytes of keys and values.
func Stored(servers []string) (keys, bytes int, err error) {
	err = operate(servers, func(ctx context.Context, client *clientv3.Client) error {
		all, err := client.Get(ctx, "\x00", clientv3.WithFromKey())
		if err != nil {
			return err
		}
		keys, bytes = 0, 0
		for _, kv := range all.Kvs {
			keys, bytes = keys+1, bytes+len(kv.Key)+len(kv.Value)
		}
		return nil
	})
	return keys, bytes, err
}

// DeleteAll removes key and all keys below it.
func DeleteAll(servers []string, key string) error {
	return operate(servers, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Txn(ctx).Then(
			clientv3.OpDelete(key),
			clientv3.OpDelete(key+"/", clientv3.WithRange(key+"0")),
		).Commit()
		return err
	})
}

// PutAll puts a persistent key and creates what is missing above it. An existing key keeps its lease.
func PutAll(servers []string, key string, value []byte) error {
	var ops []clientv3.Op
	unlessThere := func(key string, there []clientv3.Op, missing clientv3.Op) clientv3.Op {
		missed := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
		return clientv3.OpTxn(missed, []clientv3.Op{missing}, there)
	}
	for i := 1; i < len(key); i++ {
		if key[i] == '/' {
			ops = append(ops, unlessThere(key[:i], nil, clientv3.OpPut(key[:i], "")))
		}
	}
	overwrite := clientv3.OpPut(key, string(value), clientv3.WithIgnoreLease())
	ops = append(ops, unlessThere(key, []clientv3.Op{overwrite}, clientv3.OpPut(key, string(value))))
	return operate(servers, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Txn(ctx).Then(ops...).Commit()
		return err
	})
}
