package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/strangertest"
	"github.com/elector-go/elector/internal/wait"
)

// Behind this library's keys none of them is ever elected: it takes the oldest key for its
// leader's, and the election's directory stays. So they stand there and wait.
func TestStrangers(t *testing.T) {
	f := setUp(t, 30*time.Second)
	operator := f.operator()
	stands := func(t *testing.T, election string, number int) {
		t.Helper()
		wait.For(t, "the stranger stands, or has gone", func() bool {
			_, strangers, err := f.s.Survey(f.ctx, election, nil)
			require.NoError(t, err)
			return len(strangers) == number
		})
	}
	// of makes a stranger that waits by wait.
	of := func(t *testing.T, election string, wait func(ctx context.Context, s *concurrency.Session) error) func() {
		t.Helper()
		_, err := f.s.Get(f.ctx, election)
		founded := err == nil
		s, err := concurrency.NewSession(operator, concurrency.WithTTL(60))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(f.ctx)
		waiting := later(func() (struct{}, error) { return struct{}{}, wait(ctx, s) })
		stands(t, election, 1)
		return func() {
			if founded {
				cancel()
			}
			_, err := receive(f, waiting)
			assert.Equal(t, founded, errors.Is(err, context.Canceled), "%v", err)
			cancel()
			require.NoError(t, s.Close())
		}
	}
	t.Run("concurrency's Election", func(t *testing.T) {
		election := newRoot()
		strangertest.Beside(t, f.Backend, election, func() func() {
			return of(t, election, func(ctx context.Context, s *concurrency.Session) error {
				return concurrency.NewElection(s, election).Campaign(ctx, "stranger")
			})
		})
	})
	t.Run("concurrency's Mutex", func(t *testing.T) {
		election := newRoot()
		strangertest.Beside(t, f.Backend, election, func() func() {
			return of(t, election, func(ctx context.Context, s *concurrency.Session) error {
				return concurrency.NewMutex(s, election).Lock(ctx)
			})
		})
	})
	t.Run("etcdctl elect", func(t *testing.T) {
		election := newRoot()
		strangertest.Beside(t, f.Backend, election, func() func() {
			etcdctl := exec.Command(strangertest.Etcdctl(t), "--endpoints", f.Servers[0], "elect", election, "stranger")
			etcdctl.Env = append(os.Environ(), "ETCDCTL_API=3")
			stop := strangertest.Start(t, etcdctl, os.Interrupt)
			stands(t, election, 1)
			return func() {
				stop()
				stands(t, election, 0)
			}
		})
	})
}

// Strangers are found among nested elections and beside crowds, and what is further below is
// passed over.
func TestSurvey(t *testing.T) {
	f := setUp(t, 30*time.Second)
	operator := f.operator()
	lease, err := operator.Grant(f.ctx, 60)
	require.NoError(t, err)
	put := func(name string, options ...clientv3.OpOption) {
		t.Helper()
		_, err := operator.Put(f.ctx, f.dir+"/"+name, "x", options...)
		require.NoError(t, err)
	}
	survey := func(want ...string) {
		t.Helper()
		e, strangers, err := f.s.Survey(f.ctx, f.dir, func(backend.Entry) string { return f.dir + "/known" })
		require.NoError(t, err)
		require.Equal(t, f.dir, e.Key)
		for i := range want {
			want[i] = f.dir + "/" + want[i]
		}
		assert.Equal(t, want, strangers)
	}
	put("known")
	survey()
	for i := range 250 { // a crowd, which has leases, too
		put(fmt.Sprintf("known/2-%03d", i), clientv3.WithLease(lease.ID))
	}
	survey()
	for i := range 40 {
		put(fmt.Sprintf("m%02d", i))
		for j := range 5 {
			put(fmt.Sprintf("m%02d/e/%d", i, j), clientv3.WithLease(lease.ID))
		}
	}
	survey()
	put("694d", clientv3.WithLease(lease.ID))
	put("mmm", clientv3.WithLease(lease.ID))
	put("zz", clientv3.WithLease(lease.ID))
	put("zz\x00fence", clientv3.WithLease(lease.ID))
	survey("694d", "mmm", "zz")
}

// A user that may read the entry, and nothing below it, sees no strangers, and is not refused
// for it.
func TestSurveyWithoutRights(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	_, err := root.UserAdd(ctx, "eve", "secret")
	require.NoError(t, err)
	_, err = root.RoleAdd(ctx, "eve")
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(ctx, "eve", "/e", "", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.UserGrantRole(ctx, "eve", "eve")
	require.NoError(t, err)
	s := (&fixture{t: t, ctx: ctx, Process: etcdtest.NewProcess(t, []string{server.Addr()}, as("eve"))}).open(30 * time.Second)

	survey := func(key string) (backend.Entry, error) {
		e, strangers, err := s.Survey(ctx, key, nil)
		assert.Empty(t, strangers)
		return e, err
	}
	e, err := survey("/e")
	require.NoError(t, err)
	assert.False(t, e.Exists())
	for _, key := range []string{"/e", "/e/below"} {
		_, err = root.Put(ctx, key, "x")
		require.NoError(t, err)
	}
	e, err = survey("/e")
	require.NoError(t, err)
	assert.Equal(t, "x", string(e.Value))
	_, err = survey("/f")
	require.ErrorIs(t, err, backend.ErrDenied)
}
