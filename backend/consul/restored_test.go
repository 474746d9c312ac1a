package consul_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/wait"
)

// A restored service has the same index for other entries.
func TestRestoredToOneIndex(t *testing.T) {
	t.Parallel()
	restoretest.UnderALeaderAtOne(t, func(t *testing.T) restoretest.Service {
		server := consultest.Single(t).Members[0]
		backup, user := filepath.Join(t.TempDir(), "backup"), must.Get(consultest.Operator(server))(t)
		down := func(t *testing.T, do func(dir string) error) {
			t.Helper()
			require.NoError(t, server.Kill())
			require.NoError(t, do(backup))
			require.NoError(t, server.Start())
		}
		return restoretest.Service{
			Process: func(t *testing.T) (b backend.Backend, cut, mend func()) {
				f := processOn(t, consultest.Options{Config: consul.Config{SessionTimeout: time.Minute}}, server)
				return f.Backend, f.Suspend, f.Resume
			},
			BackUp:  func(t *testing.T) { down(t, server.Backup) },
			Restore: func(t *testing.T) { down(t, server.Restore) },
			Others: func(t *testing.T, until func(newest uint64) bool) {
				t.Helper()
				for newest := uint64(0); !until(newest); {
					wait.For(t, "the server serves", func() bool {
						_, err := user.KV().Put(&api.KVPair{Key: "others", Value: []byte(rand.Text())}, nil) // the same value would be no write
						return err == nil
					})
					newest = must.First(user.KV().Get("others", &api.QueryOptions{RequireConsistent: true}))(t).ModifyIndex
				}
			},
			Between: 200, // else the next leader is too late
		}
	})
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
