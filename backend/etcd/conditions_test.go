package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// The user's own transaction, with the user's own client, works under conditions on each kind of entry,
// also with a shared session; a term's Guard holds as long as the term does: rule fence/ended.
func TestCmps(t *testing.T) {
	f := setUp(t, 30*time.Second)
	shared := must.Get(backend.Share(f.Backend, 30*time.Second).Open(f.ctx, backend.OpenOptions{}))(t)
	defer shared.Close(f.ctx)
	user, other := f.operator(), f.another(30*time.Second)
	holds := func(cmps []clientv3.Cmp) bool {
		answer := must.Get(user.Txn(f.ctx).If(cmps...).Then(clientv3.OpPut(f.dir+"-state", "x")).Commit())(t)
		return answer.Succeeded
	}
	f.enqueue(other.s) // so that the next one is in a queue
	for name, make := range map[string]func(by *backend.Session) backend.Entry{
		"enqueued":   f.enqueue,
		"exclusive":  f.seat,
		"persistent": func(by *backend.Session) backend.Entry { return f.put(by, f.dir+"/p", "") },
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			for _, s := range []*backend.Session{f.s, shared} {
				e := make(s)
				held := must.Get(etcd.Cmps(f.ctx, s, backend.IfExists(e)))(t)
				unchanged := must.Get(etcd.Cmps(f.ctx, s, backend.IfUnchanged(e)))(t)
				require.True(t, holds(held))
				require.True(t, holds(unchanged))
				require.True(t, holds(append(held, unchanged...)))
				f.commit(other.s, backend.Update(e, []byte("new")))
				require.True(t, holds(held))
				require.False(t, holds(unchanged))
				f.commit(other.s, backend.Delete(e))
				require.False(t, holds(held))
				next := make(other.s)
				require.False(t, holds(held))
				require.False(t, holds(unchanged))
				f.commit(other.s, backend.Delete(next))
			}
		})
	}
}

// FuzzCmps tests the errors of wrong entries.
func TestCmpsErrors(t *testing.T) {
	f := setUp(t, 30*time.Second)
	e := f.enqueue(f.s)
	double, err := memory.New(memory.Options{}).Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer double.Close(f.ctx)
	for _, foreign := range []*backend.Session{double, nil} {
		_, err = etcd.Cmps(f.ctx, foreign, backend.IfExists(e))
		require.ErrorContains(t, err, "not of this package")
	}
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = etcd.Cmps(ended, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, context.Canceled)
	none := must.Get(etcd.Cmps(f.ctx, f.s))(t)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = etcd.Cmps(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}
