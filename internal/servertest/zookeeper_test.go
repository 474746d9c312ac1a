//go:build unix

package servertest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
)

var fast = ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128}

// connect returns a client with a session.
func connect(t *testing.T, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	deadline := time.After(wait.Patience)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-deadline:
			t.Fatal("no session")
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func create(t *testing.T, conn *zk.Conn, path string, flags int32) {
	t.Helper()
	_, err := conn.Create(path, []byte("x"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func exists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	found := false
	wait.For(t, "the client is back", func() bool {
		var err error
		found, _, err = conn.Exists(path)
		return err == nil
	})
	return found
}

func TestZooKeeperLifecycle(t *testing.T) {
	begin := time.Now()
	z := ZooKeeperForTest(t, fast)
	t.Logf("started in %v", time.Since(begin))
	if mode, err := z.Mode(); err != nil || mode != ModeStandalone {
		t.Fatalf("mode %q, %v", mode, err)
	}
	if answer, err := z.Command("ruok"); err != nil || answer != "imok" {
		t.Fatalf("ruok: %q, %v", answer, err)
	}
	conn := connect(t, 10*time.Second, z.Addr())
	create(t, conn, "/kept", 0)
	if z.Start() == nil {
		t.Fatal("started twice")
	}

	addr, pid := z.Addr(), z.PID()
	require.NoError(t, z.Kill())
	if z.Running() || !gone(pid) {
		t.Fatal("running after Kill")
	}
	if _, err := z.Mode(); err == nil {
		t.Fatal("a killed server answers")
	}
	require.NoError(t, z.Start())
	if z.Addr() != addr || z.PID() == pid {
		t.Fatal("not the same server again")
	}
	if !exists(t, conn, "/kept") {
		t.Fatal("data lost by Kill and Start")
	}
	require.NoError(t, z.Stop())
	require.NoError(t, z.Start())
	begin = time.Now()
	require.NoError(t, z.Restart())
	t.Logf("restarted in %v", time.Since(begin))
	if !exists(t, conn, "/kept") {
		t.Fatal("data lost by Stop, Start, Restart")
	}
	conn.Close()

	require.NoError(t, z.Wipe())
	require.NoError(t, z.Start())
	if exists(t, connect(t, 10*time.Second, z.Addr()), "/kept") {
		t.Fatal("data survived Wipe")
	}

	pid = z.PID()
	require.NoError(t, z.Close())
	require.NoError(t, z.Close())
	if _, err := os.Stat(z.Dir()); !os.IsNotExist(err) || !gone(pid) {
		t.Fatalf("Close left something behind: %v", err)
	}
	if err := z.Start(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Start after Close: %v", err)
	}
}

func TestZooKeeperPause(t *testing.T) {
	z := ZooKeeperForTest(t, fast)
	conn := connect(t, 20*time.Second, z.Addr())
	require.NoError(t, z.Pause())
	answered := make(chan error, 1)
	go func() {
		_, _, err := conn.Exists("/")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, z.Resume())
	require.NoError(t, <-answered)
	require.NoError(t, z.Pause())
	require.NoError(t, z.Kill()) // works on a paused one
}

func TestZooKeeperSessionExpiresSoon(t *testing.T) {
	Long(t, "the session's timeout")
	z := SharedZooKeeper(t)
	p := proxytest.ForTest(t, z.Addr())
	create(t, connect(t, 5*time.Second, p.Addr()), "/short", zk.FlagEphemeral)
	p.Refuse(true)
	p.Cut()
	conn := connect(t, 10*time.Second, z.Addr())
	begin := time.Now()
	wait.For(t, "the ephemeral node goes", func() bool { return !exists(t, conn, "/short") })
	t.Logf("gone after %v", time.Since(begin))
}

func TestZooKeeperMetrics(t *testing.T) {
	z := SharedZooKeeper(t)
	conn := connect(t, 10*time.Second, z.Addr())
	before, err := z.Metrics()
	require.NoError(t, err)
	create(t, conn, "/metrics", zk.FlagEphemeral)
	_, _, _, err = conn.ExistsW("/metrics")
	require.NoError(t, err)
	after, err := z.Metrics()
	require.NoError(t, err)
	for _, key := range []string{"znode_count", "ephemerals_count", "watch_count"} {
		if after[key] != before[key]+1 {
			t.Errorf("%s: %v, then %v", key, before[key], after[key])
		}
	}
	if grown := after["packets_received"] - before["packets_received"]; grown < 2 {
		t.Errorf("packets_received grew by %v", grown)
	}
	if after["num_alive_connections"] < 1 {
		t.Errorf("num_alive_connections %v", after["num_alive_connections"])
	}
	if n, err := z.Watches(); err != nil || n < 1 {
		t.Errorf("watches %d, %v", n, err)
	}
}

func TestZooKeeperStartFailureShowsTheLog(t *testing.T) {
	cfg := fast
	cfg.Extra = []string{"tickTime=nonsense"}
	_, err := StartZooKeeper(cfg)
	if !errors.Is(err, process.ErrNotRunning) || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("error %v", err)
	}
}

func TestZooKeeperNotInstalled(t *testing.T) {
	t.Setenv("ELECTOR_ZK_JARS", t.TempDir())
	_, err := StartZooKeeper(fast)
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "zookeeper openjdk-17-jre-headless") {
		t.Fatalf("no jars: %v", err)
	}
	t.Setenv("ELECTOR_ZK_JARS", "")
	t.Setenv("JAVA_HOME", "")
	t.Setenv("PATH", t.TempDir())
	if _, err := StartZooKeeperEnsemble(3, fast); !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("no java: %v", err)
	}
}
