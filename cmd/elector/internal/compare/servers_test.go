package compare

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/catalog"
)

// real runs a small comparison on a real service. The session timeouts are long enough that nobody loses a
// session for lack of a processor.
func real(t *testing.T, url string) report.Report {
	t.Helper()
	out, err := Run(t.Context(), Config{
		Backends: []string{url}, Strategies: catalog.Names(), N: []int{4}, Changes: 6, Crashes: 0.17, Churn: 0.5, Seed: 1,
	})
	require.NoError(t, err)
	require.Len(t, out.Runs, len(catalog.Names()))
	for _, r := range out.Runs {
		assert.Empty(t, r.Truncated, r.Strategy)
		assert.Equal(t, url, r.Service)
		assert.Equal(t, 5, r.Resigned.N, r.Strategy)
		assert.Equal(t, 1, r.Crashed.N, r.Strategy)
		assert.Equal(t, 7, sum(r.Fairness.Wins), r.Strategy)
		assert.Positive(t, r.Resigned.P50, r.Strategy)
		assert.Positive(t, r.Unnoticed.P50, r.Strategy)
		assert.NotNil(t, r.Sample, r.Strategy)
		item, _ := catalog.Named(r.Strategy)
		if item.Ordered {
			assert.Zero(t, r.Fairness.Inversions, r.Strategy)
		}
		if item.Herd {
			// One that wakes late may be counted with the next change, or not at all. TestExact has the exact
			// number.
			assert.Greater(t, r.PerChange.WakeUps, float64(r.N)/2, r.Strategy)
		}
	}
	return out
}

func TestZooKeeper(t *testing.T) {
	servertest.Long(t, "a minute of measuring")
	t.Parallel()
	server := servertest.SharedZooKeeper(t)
	conn := zktest.Operator(t, server.Addr())
	before := must.First(conn.Children("/"))(t)

	out := real(t, "zk://"+server.Addr()+"?timeout=10s")
	for _, r := range out.Runs {
		// A write is a received packet. Heartbeats are not included.
		assert.GreaterOrEqual(t, r.Server["received"], r.PerChange.Writes-1, r.Strategy)
		assert.LessOrEqual(t, r.Server["received"], 3*r.PerChange.Operations, r.Strategy)
		assert.Empty(t, r.ServerNote)
	}
	after := must.First(conn.Children("/"))(t)
	assert.ElementsMatch(t, before, after, "nothing stays behind")
}

func TestEtcd(t *testing.T) {
	servertest.Long(t, "a minute of measuring")
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	out := real(t, "etcd://"+server.Addr()+"?timeout=10s")
	for _, r := range out.Runs {
		assert.Positive(t, r.Server["received"], r.Strategy)
		assert.Empty(t, r.ServerNote)
	}
	operator := etcdtest.Operator(t, server.Addr())
	keys := must.Get(operator.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly()))(t)
	assert.Empty(t, keys.Kvs, "nothing stays behind")
}

func TestConsul(t *testing.T) {
	servertest.Long(t, "a minute of measuring")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	out := real(t, "consul://"+server.Addr()+"?check=10s")
	for _, r := range out.Runs {
		assert.Empty(t, r.Server, "this server keeps no running counts")
		assert.NotEmpty(t, r.ServerNote)
	}
	keys := must.First(must.Get(consultest.Operator(server))(t).KV().Keys("", "", nil))(t)
	assert.Empty(t, keys, "nothing stays behind")
}

// TestServerKilled holds that a run ends, with the reason, when its server does, and that the others on it
// are skipped.
func TestServerKilled(t *testing.T) {
	servertest.Long(t, "a server that is killed, and sessions that run out")
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	var once sync.Once
	out, err := Run(t.Context(), Config{
		Backends: []string{"zk://" + server.Addr() + "?timeout=3s", Embedded}, Strategies: []string{"fair", "unfair"}, N: []int{3}, Changes: 20, Seed: 1,
		Progress: func(done, _ int, _ string) {
			if done == 3+10 {
				once.Do(func() { assert.NoError(t, server.Kill()) })
			}
		},
	})
	require.Error(t, err)
	require.Len(t, out.Runs, 4)
	assert.Equal(t, 10, out.Runs[0].Resigned.N)
	assert.Contains(t, out.Runs[0].Truncated, "has lost its session")
	assert.Contains(t, out.Runs[0].Truncated, "left behind in the service, to be deleted by hand: /elector-compare-")
	assert.Contains(t, out.Runs[1].Truncated, "cannot be used")
	assert.Empty(t, out.Runs[2].Truncated+out.Runs[3].Truncated, "another service")
}

// TestTooMany holds that the error says how many could connect, and what is in the way.
func TestTooMany(t *testing.T) {
	servertest.Long(t, "a server for many connections")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, Config: "limits { http_max_conns_per_client = 20 }"})
	out, err := Run(t.Context(), Config{
		Backends: []string{"consul://" + server.Addr()}, Strategies: []string{"unfair"}, N: []int{70}, Changes: 1, Seed: 1,
	})
	require.ErrorContains(t, err, "of 70 candidates could connect")
	assert.ErrorContains(t, err, "http_max_conns_per_client")
	assert.True(t, strings.Contains(out.Runs[0].Truncated, "could connect"))
}

// TestGoroutines holds that none is left on a real service, including a crashed candidate's. (On the embedded
// one, fake time holds it in each test.)
func TestGoroutines(t *testing.T) {
	servertest.Long(t, "a session that runs out")
	url := "zk://" + servertest.SharedZooKeeper(t).Addr() + "?timeout=3s"
	before := runtime.NumGoroutine()
	_, err := Run(t.Context(), Config{
		Backends: []string{url}, Strategies: []string{"fair"}, N: []int{5}, Changes: 3, Crashes: 0.34, Churn: 1, Seed: 1,
	})
	require.NoError(t, err)
	wait.For(t, "its goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}
