package consul_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/unfair"
)

// A term ends, and nothing that it writes is done, if the service is restored while the leader is cut
// off, and another one leads by an entry that is made at the index of the old one's.
func TestRestoredToOneIndex(t *testing.T) {
	t.Parallel()
	for range 5 { // a server may write for itself in between
		if restoredToOneIndex(t) {
			return
		}
	}
	t.Fatal("no two seats had one index: the premise")
}

// restoredToOneIndex tries it, and reports whether the indexes were the same.
func restoredToOneIndex(t *testing.T) (same bool) {
	t.Helper()
	server := consultest.Single(t).Members[0]
	lasts := consultest.Options{Config: consul.Config{SessionTimeout: time.Minute}}
	f, o, election := processOn(t, lasts, server), processOn(t, lasts, server), newRoot()
	founder := f.stand(f.Backend, unfair.Strategy{}, election)
	require.NoError(t, f.campaign(founder).Resign(f.Ctx))
	require.NoError(t, founder.Close(f.Ctx))
	old, next := f.stand(f.Backend, unfair.Strategy{}, election), o.stand(o.Backend, unfair.Strategy{}, election)
	for _, e := range []elector.Elector{old, next} {
		_, err := e.Leader(f.Ctx) // it has a session
		require.ErrorIs(t, err, elector.ErrNoLeader)
	}
	backup, user := filepath.Join(t.TempDir(), "backup"), f.operator()
	write := func() (index uint64) {
		wait.For(t, "the server serves", func() bool {
			_, err := user.KV().Put(&api.KVPair{Key: "others", Value: []byte(rand.Text())}, nil) // the same value would be no write
			return err == nil
		})
		pair := must.First(user.KV().Get("others", &api.QueryOptions{RequireConsistent: true}))(t)
		return pair.ModifyIndex
	}
	require.NoError(t, server.Kill())
	require.NoError(t, server.Backup(backup))
	require.NoError(t, server.Start())
	for range 200 { // else the other one is too late
		write()
	}
	term := f.campaign(old)
	f.Suspend()
	o.Suspend()
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restore(backup))
	require.NoError(t, server.Start())
	write()
	o.Resume()
	_, err := next.Leader(o.Ctx) // it is in touch again
	require.ErrorIs(t, err, elector.ErrNoLeader)
	for at := write(); at < term.Token()-1; {
		at = write()
	}
	led := o.campaign(next)
	f.Resume()
	wait.For(t, "the old term is over", func() bool { return !term.Valid() })
	_, err = term.Commit(f.Ctx, elector.Put(election+"-written", nil))
	require.Error(t, err)
	assert.True(t, led.Valid())
	return led.Token() == term.Token()
}

// Entries that were deleted do not come back with a backup.
func TestRestoredBehindItself(t *testing.T) {
	restoretest.BehindItself(t, func(t *testing.T) restoretest.Service {
		server := consultest.Single(t).Members[0]
		user := must.Get(consultest.Operator(server))(t)
		var restore func()
		return restoretest.Service{
			Client: func(t *testing.T) backend.Backend {
				return processOn(t, consultest.Options{Config: consul.Config{SessionTimeout: 30 * time.Second}}, server).Backend
			},
			Delete: func(t *testing.T, e backend.Entry) {
				must.Get(user.KV().Delete(e.Key[1:], nil))(t)
			},
			BackUp:  func(t *testing.T) { restore = snapshot(t, user) },
			Restore: func(*testing.T) { restore() },
		}
	})
}
