package zookeeper_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/strangertest"
	"github.com/elector-go/elector/internal/zktest"
)

// kazoo stands in an election until its standard input ends.
const kazoo = `
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1])
client.start()
client.Election(sys.argv[2], "kazoo").run(sys.stdin.readline)
client.stop()
`

// prefixes are the prefixes of other libraries' candidates, which are sequential except for the last.
// They are from the sources of Apache Curator (LeaderLatch; LeaderSelector and InterProcessMutex), of
// LeaderElectionSupport in ZooKeeper's recipes, of Comcast/go-leaderelection, of Shopify/zk, and of
// Apache Kafka.
var prefixes = []string{
	"_c_4ca8e74b-6350-7587-addf-a18084928f3c-latch-", "_c_4ca8e74b-6350-7587-addf-a18084928f3c-lock-",
	"n_", "le_", "", "controller",
}

func TestStrangers(t *testing.T) {
	f := setUp(t, nil)
	admin := f.admin()
	stands := func(t *testing.T, election string, number int) {
		t.Helper()
		strangertest.Stands(f.Ctx, t, f.S, election, number)
	}
	t.Run("go-zookeeper's Lock", func(t *testing.T) {
		election := newRoot()
		strangertest.Beside(t, f.Backend, election, func() func() {
			conn := f.admin()
			// If the election's directory is there, too, Lock fails, as it cannot parse its name, and
			// leaves its node behind.
			_ = zk.NewLock(conn, election, zk.WorldACL(zk.PermAll)).Lock()
			stands(t, election, 1)
			return func() {
				conn.Close()
				stands(t, election, 0)
			}
		})
	})
	t.Run("kazoo's Election, which is its Lock", func(t *testing.T) {
		servertest.Long(t, "kazoo")
		election := newRoot()
		strangertest.Beside(t, f.Backend, election, func() func() {
			stop := strangertest.Start(t, exec.Command(strangertest.Kazoo(t), "-c", kazoo, f.server.Addr(), election), nil)
			stands(t, election, 1)
			return func() {
				stop()
				stands(t, election, 0)
			}
		})
	})
	for _, prefix := range prefixes {
		t.Run("named as "+prefix, func(t *testing.T) {
			election := newRoot()
			require.NoError(t, zktest.PutAll(admin, election, nil))
			strangertest.Beside(t, f.Backend, election, func() func() {
				flags := int32(zk.FlagEphemeral | zk.FlagSequence)
				if prefix == "controller" {
					flags = zk.FlagEphemeral
				}
				path := must.Get(admin.Create(election+"/"+prefix, nil, flags, zk.WorldACL(zk.PermAll)))(t)
				return func() { require.NoError(t, admin.Delete(path, -1)) }
			})
		})
	}
}

// Persistent nodes, containers and nodes with a time to live are no strangers, in any number. A survey
// takes one request if only the known child exists.
func TestSurvey(t *testing.T) {
	f := setUp(t, pings)
	admin := f.admin()
	known := f.Dir + "/known"
	require.NoError(t, zktest.PutAll(admin, known, nil))
	survey := func() []string {
		t.Helper()
		e, strangers, err := f.S.Survey(f.Ctx, f.Dir, func(backend.Entry) string { return known })
		require.NoError(t, err)
		require.Equal(t, f.Dir, e.Key)
		return strangers
	}
	sent := f.requests()
	assert.Empty(t, survey())
	assert.Len(t, sent(), 1, "requests")
	must.Get(admin.CreateContainer(f.Dir+"/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)))(t)
	for i := range 150 {
		require.NoError(t, zktest.PutAll(admin, fmt.Sprintf("%s/notes-%d", f.Dir, i), nil))
	}
	sent = f.requests()
	assert.Empty(t, survey())
	assert.Len(t, sent(), 102, "requests")
	// Names as in the recipes are looked at first.
	stranger := must.Get(admin.Create(f.Dir+"/zzz-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)))(t)
	assert.Equal(t, []string{stranger}, survey())
}

// A session that may read the entry and not list what is below sees no strangers, and no refusal.
func TestSurveyWithoutRights(t *testing.T) {
	f := setUp(t, nil)
	admin := f.admin()
	require.NoError(t, zktest.PutAll(admin, f.Dir+"/a", nil))
	require.NoError(t, zktest.PutAll(admin, f.Dir+"/b", nil))
	must.Get(admin.SetACL(f.Dir+"/a", zk.WorldACL(0), -1))(t)
	_, strangers, err := f.S.Survey(f.Ctx, f.Dir, nil)
	require.NoError(t, err)
	require.Empty(t, strangers)
}
