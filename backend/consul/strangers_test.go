package consul_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/strangertest"
)

func TestStrangers(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	client := f.operator()
	lock := func(election, name string) *api.Lock {
		l := must.Get(client.LockKey(election[1:] + name))(t)
		must.Get(l.Lock(f.Ctx.Done()))(t)
		return l
	}
	for name, stand := range map[string]func(election string) (leave func()){
		"api.Lock": func(election string) func() {
			l := lock(election, "/.lock")
			return func() {
				require.NoError(t, l.Unlock())
				require.NoError(t, l.Destroy())
			}
		},
		"api.Lock between two holders": func(election string) func() {
			l := lock(election, "/lock")
			require.NoError(t, l.Unlock())
			return func() { require.NoError(t, l.Destroy()) }
		},
		"api.Semaphore": func(election string) func() {
			semaphore := must.Get(client.SemaphorePrefix(election[1:], 1))(t)
			must.Get(semaphore.Acquire(f.Ctx.Done()))(t)
			return func() {
				require.NoError(t, semaphore.Release())
				require.NoError(t, semaphore.Destroy())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			election := newRoot()
			strangertest.Beside(t, f.Backend, election, func() func() { return stand(election) })
		})
	}
	t.Run("consul lock", func(t *testing.T) {
		path := must.Get(servertest.ConsulCommand())(t)
		election := newRoot()
		stands := func(number int) { strangertest.Stands(f.Ctx, t, f.S, election, number) }
		strangertest.Beside(t, f.Backend, election, func() func() {
			stop := strangertest.Start(t, exec.Command(path, "lock", "-http-addr", f.Servers[0].Addr(), election, "exec sleep 600"), os.Interrupt) // or dash waits for sleep
			stands(1)
			return func() {
				stop()
				stands(0)
			}
		})
	})
}

// A lock of Consul's client on the election's path itself and the election keep each other away: the
// one finds a key that is held, the other flags that are not its own.
func TestLockOnTheElectionsPath(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	client := f.operator()
	election := newRoot()
	lock := must.Get(client.LockKey(election[1:]))(t)
	must.Get(lock.Lock(f.Ctx.Done()))(t)
	e := f.Stand(elector.Config{Backend: f.Backend, Election: election})
	_, err := e.Campaign(f.Ctx)
	require.ErrorIs(t, err, elector.ErrStrategyMismatch)
	require.NoError(t, lock.Unlock())
	term := f.Campaign(e)
	_, err = lock.Lock(f.Ctx.Done())
	require.ErrorIs(t, err, api.ErrLockConflict)
	assert.True(t, term.Valid())
}

// A survey is two concurrent requests if there are only the known key and directories of others.
func TestSurvey(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	known := f.Dir + "/known"
	for _, key := range []string{known, known + "/x", f.Dir + "/nested", f.Dir + "/nested/e/x"} {
		must.Get(f.operator().KV().Put(&api.KVPair{Key: key[1:]}, nil))(t)
	}
	asked, _ := f.count(both(txns, not(looks)))
	_, strangers, err := f.S.Survey(f.Ctx, f.Dir, func(backend.Entry) string { return known })
	require.NoError(t, err)
	assert.Empty(t, strangers)
	assert.Zero(t, asked.Load(), "transactions")
}
