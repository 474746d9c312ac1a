package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/internal/zktest"
)

// An operator looks at what stands in the service with the service's own client, and
// not with the code under test.
type operator interface {
	get(key string) (stored, error)
	children(key string) (names []string, err error)
	delete(key string) error
	// follow tells the values of a key until ctx ends.
	follow(ctx context.Context, key string, saw func(value []byte))
}

// stored is what stands under a key, and in which changes of the whole service it was
// made and written; the zero one says nothing.
type stored struct {
	value         []byte
	made, written uint64
}

func (s stored) is() bool { return s.made != 0 }

type zkOperator struct{ *zk.Conn }

func newZKOperator(t *testing.T, addr string) operator { return zkOperator{zktest.Operator(t, addr)} }

func (o zkOperator) get(key string) (stored, error) {
	data, stat, err := o.Get(key)
	if errors.Is(err, zk.ErrNoNode) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, err
	}
	return stored{data, uint64(stat.Czxid), uint64(stat.Mzxid)}, nil
}

func (o zkOperator) children(key string) ([]string, error) {
	names, _, err := o.Children(key)
	return names, err
}

func (o zkOperator) delete(key string) error { return o.Delete(key, -1) }

func (o zkOperator) follow(ctx context.Context, key string, saw func([]byte)) {
	for ctx.Err() == nil {
		data, _, changed, err := o.GetW(key)
		if err == nil {
			saw(data)
		}
		select {
		case <-changed: // nil where there is nothing yet
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

type etcdOperator struct{ *clientv3.Client }

func newEtcdOperator(t *testing.T, addr string) operator {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return etcdOperator{client}
}

func (o etcdOperator) get(key string) (stored, error) {
	r, err := o.Get(o.Ctx(), key)
	if err != nil || len(r.Kvs) == 0 {
		return stored{}, err
	}
	kv := r.Kvs[0]
	return stored{kv.Value, uint64(kv.CreateRevision), uint64(kv.ModRevision)}, nil
}

func (o etcdOperator) children(key string) (names []string, err error) {
	r, err := o.Get(o.Ctx(), key+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range r.Kvs {
		names = append(names, string(kv.Key))
	}
	return names, nil
}

func (o etcdOperator) delete(key string) error {
	_, err := o.Delete(o.Ctx(), key)
	return err
}

func (o etcdOperator) follow(ctx context.Context, key string, saw func([]byte)) {
	for r := range o.Watch(ctx, key) {
		for _, e := range r.Events {
			saw(e.Kv.Value)
		}
	}
}

type consulOperator struct{ *api.KV }

func newConsulOperator(t *testing.T, addr string) operator {
	client, err := api.NewClient(&api.Config{Address: addr})
	require.NoError(t, err)
	return consulOperator{client.KV()}
}

func (o consulOperator) get(key string) (stored, error) {
	pair, _, err := o.Get(key[1:], &api.QueryOptions{RequireConsistent: true})
	if err != nil || pair == nil {
		return stored{}, err
	}
	return stored{pair.Value, pair.CreateIndex, pair.ModifyIndex}, nil
}

func (o consulOperator) children(key string) ([]string, error) {
	names, _, err := o.Keys(strings.TrimPrefix(key, "/")+"/", "", &api.QueryOptions{RequireConsistent: true})
	return names, err
}

func (o consulOperator) delete(key string) error {
	_, err := o.Delete(key[1:], nil)
	return err
}

func (o consulOperator) follow(ctx context.Context, key string, saw func([]byte)) {
	seen := uint64(0)
	for ctx.Err() == nil {
		pair, meta, err := o.Get(key[1:], (&api.QueryOptions{WaitIndex: seen}).WithContext(ctx))
		if err != nil {
			seen = 0
			continue
		}
		if seen = meta.LastIndex; pair != nil {
			saw(pair.Value)
		}
	}
}
