package zookeeper_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

func TestTLSAndChroot(t *testing.T) {
	proxy, config := proxytest.TLSForTest(t, servertest.SharedZooKeeper(t).Addr())
	chroot := newRoot() + "/deep"
	f := process(t, []string{proxy.Addr()}, func(cfg *zookeeper.Config) {
		// Without the process's own proxies, which parse the traffic.
		*cfg = zookeeper.Config{Servers: []string{proxy.Addr()}, TLS: config, Chroot: chroot}
	})
	f.S = f.open()
	made := f.Commit(f.S, backend.CompareAndSet("/a", nil, 0), backend.CreateEphemeral("/a/seat", []byte("x")), backend.Enqueue("/a", nil))
	assert.Equal(t, "/a/seat", made[1].Key)
	assert.True(t, f.Get(f.S, "/a/seat").Same(made[1]))
	assert.Equal(t, chroot+"/a", zookeeper.Path(f.S, "/a"))
	data := must.First(zookeeper.Conn(f.S).Get(zookeeper.Path(f.S, "/a/seat")))(t)
	assert.Equal(t, "x", string(data))
	waiting := wait.Later(func() ([]backend.Entry, error) { return f.S.Await(f.Ctx, made[2]) })
	require.NoError(t, f.S.Discard(f.Ctx, made[2]))
	wait.Value(f.T, waiting)
}

// If the server grants less than requested, Config.Margin may leave heartbeats no time to move the
// window.
func TestMarginForWhatIsGranted(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	for heartbeat, margin := range map[zookeeper.Heartbeat]time.Duration{zookeeper.HeartbeatLeader: 20 * time.Second, zookeeper.HeartbeatPing: 40 * time.Second} {
		b, err := zookeeper.New(zookeeper.Config{Servers: []string{server.Addr()}, Heartbeat: heartbeat, Margin: margin, SessionTimeout: 2 * time.Minute})
		require.NoError(t, err)
		_, err = b.Open(t.Context(), backend.OpenOptions{})
		require.ErrorContains(t, err, "granted")
		require.ErrorContains(t, err, margin.String())
	}
}

// A server that lags behind does not have a directory that was just created at another server. The
// leader decides about a commit, and finds it.
func TestCreateInANewDirectory(t *testing.T) {
	addrs := zktest.Ensemble(t).Addrs()
	f := process(t, addrs, nil)
	var sessions []*backend.Session
	for _, addr := range addrs {
		sessions = append(sessions, process(t, []string{addr}, nil).open())
	}
	root := newRoot()
	for i := range 100 {
		dir := fmt.Sprint(root, "/", i)
		f.Commit(sessions[i%len(sessions)], backend.CompareAndSet(dir, nil, 0))
		for j, s := range sessions {
			f.create(s, fmt.Sprint(dir, "/seat", j))
		}
	}
}
