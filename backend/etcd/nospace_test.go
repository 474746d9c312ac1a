package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/servertest"
)

// The quota runs out while commits are under way. A server that finds no room as it applies
// a transaction applies it all the same, and answers that there is no space: the error does
// not say that nothing was written. What such a commit has enqueued is removed.
func TestNoSpace(t *testing.T) {
	const many, size = 48, 16 << 10
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--quota-backend-bytes", fmt.Sprint(16 << 20)}})
	f := setUpWith(t, clusterTTL, etcdtest.NewProcess(t, []string{server.Addr()}, nil))
	op := etcdtest.Operator(t, server.Addr())
	var mu sync.Mutex
	var wg sync.WaitGroup
	known := map[string]bool{} // what was enqueued, by its value
	for i := range many {
		wg.Go(func() {
			for n := 0; ; n++ {
				key, value := fmt.Sprintf("%s/k%d-%d", f.dir, i, n), bytes.Repeat([]byte{byte(n)}, size)
				name := fmt.Sprintf("v%d-%d", i, n)
				ops := []backend.Op{backend.Put(key, value, 0)}
				if i%2 == 0 {
					ops = []backend.Op{backend.Enqueue(f.dir, append([]byte(name+" "), value...))}
				}
				_, err := f.s.Commit(f.ctx, nil, ops...)
				switch {
				case err == nil:
					mu.Lock()
					known[name] = true
					mu.Unlock()
					continue
				case !errors.Is(err, backend.ErrIndeterminate):
					r, why := op.Get(f.ctx, key, clientv3.WithKeysOnly())
					assert.NoError(t, why)
					assert.Empty(t, r.Kvs, "there, and the error was: %v", err)
				}
				return
			}
		})
	}
	wg.Wait()
	eventually(t, "what nobody knows of is removed", func() bool {
		all, err := op.Get(f.ctx, f.dir, clientv3.WithPrefix())
		require.NoError(t, err)
		for _, kv := range all.Kvs {
			name, _, enqueued := bytes.Cut(kv.Value, []byte(" "))
			if enqueued && kv.Lease != 0 && !known[string(name)] {
				return false
			}
		}
		return true
	})
}
