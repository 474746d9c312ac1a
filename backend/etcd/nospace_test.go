package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// noSpace makes the server say that it has no space, until disarm is called.
func (f *fixture) noSpace() (disarm func()) {
	f.T.Helper()
	operator := f.operator()
	status := must.Get(operator.Status(f.Ctx, f.Servers[0]))(f.T)
	_, err := pb.NewMaintenanceClient(operator.ActiveConnection()).Alarm(f.Ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: status.Header.MemberId,
	})
	require.NoError(f.T, err)
	return func() {
		must.Get(operator.AlarmDisarm(f.Ctx, &clientv3.AlarmMember{}))(f.T)
	}
}

// A commit that finds no space says so, and not that it may have been done.
func TestNoSpaceIsKnown(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, 30*time.Second, nil, etcdtest.Single(t).Addrs()...)
	seat, record := f.seat(f.S), f.put(f.S, f.Dir+"/record", "")
	another := f.open(30 * time.Second)
	disarm := f.noSpace()
	ops := []backend.Op{
		backend.CompareAndSet(f.Dir+"/new", nil, 0), backend.CompareAndSet(record.Key, []byte("x"), record.Version), backend.Update(seat, []byte("x")),
		backend.CreateEphemeral(f.Dir+"/other", nil), backend.Enqueue(f.Dir, nil),
	}
	refused := func(op backend.Op) {
		t.Helper()
		_, err := f.S.Commit(f.Ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrUnavailable, op.Kind)
		require.ErrorIs(t, err, rpctypes.ErrNoSpace, op.Kind)
		require.NotErrorIs(t, err, backend.ErrIndeterminate, op.Kind)
	}
	for _, op := range ops {
		refused(op)
	}
	// Deletions are accepted, and a session can end; but none can be opened.
	f.Discard(f.S, seat)
	require.NoError(t, another.Close(f.Ctx))
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	refused(ops[1])
	disarm()
	for i, op := range ops {
		if i != 2 { // its seat is gone
			f.Commit(f.S, op)
		}
	}
}

// If the quota runs out during commits, a server that finds no space while it applies a transaction
// applies it, and answers that there is no space: the error does not say that nothing was written, and
// what such a commit has enqueued is removed.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	const many, size = 48, 16 << 10
	f := setUpOn(t, 30*time.Second, nil, etcdtest.Single(t, "--quota-backend-bytes", fmt.Sprint(16<<20)).Addrs()...)
	op := f.operator()
	var mu sync.Mutex
	var wg sync.WaitGroup
	known := map[string]bool{} // what was enqueued, by its value
	for i := range many {
		wg.Go(func() {
			for n := 0; ; n++ {
				key, value := fmt.Sprintf("%s/k%d-%d", f.Dir, i, n), bytes.Repeat([]byte{byte(n)}, size)
				name := fmt.Sprintf("v%d-%d", i, n)
				ops := []backend.Op{backend.CompareAndSet(key, value, 0)}
				if i%2 == 0 {
					ops = []backend.Op{backend.Enqueue(f.Dir, append([]byte(name+" "), value...))}
				}
				_, err := f.S.Commit(f.Ctx, nil, ops...)
				switch {
				case err == nil:
					mu.Lock()
					known[name] = true
					mu.Unlock()
					continue
				case !errors.Is(err, backend.ErrIndeterminate):
					r, why := op.Get(f.Ctx, key, clientv3.WithKeysOnly())
					assert.NoError(t, why)
					assert.Empty(t, r.Kvs, "there, and the error was: %v", err)
				}
				return
			}
		})
	}
	wg.Wait()
	wait.For(t, "what nobody knows of is removed", func() bool {
		all := must.Get(op.Get(f.Ctx, f.Dir, clientv3.WithPrefix()))(t)
		for _, kv := range all.Kvs {
			name, _, enqueued := bytes.Cut(kv.Value, []byte(" "))
			if enqueued && kv.Lease != 0 && !known[string(name)] {
				return false
			}
		}
		return true
	})
}
