//go:build unix

package servertest

import (
	"errors"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// connect returns a client of a server that serves. The client's first request waits for a session.
func (z *ZooKeeper) connect() (*zk.Conn, error) {
	if _, err := z.info(wait.Patience); err != nil { // it may be paused for a while
		return nil, err
	}
	conn, _, err := zk.Connect([]string{z.Addr()}, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	return conn, err
}

func (z *ZooKeeper) put(key string) error {
	conn, err := z.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Create("/"+key, nil, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (z *ZooKeeper) has(key string) (bool, error) {
	conn, err := z.connect()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.Sync("/"); err != nil { // a follower may be behind
		return false, err
	}
	found, _, err := conn.Exists("/" + key)
	return found, err
}

func TestZooKeeperMetrics(t *testing.T) {
	z := SharedZooKeeper(t)
	conn := must.Get(z.connect())(t)
	defer conn.Close()
	before := must.Get(z.Metrics())(t)
	must.Get(conn.Create("/metrics", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))(t)
	_, _, _, err := conn.ExistsW("/metrics")
	require.NoError(t, err)
	after := must.Get(z.Metrics())(t)
	for _, key := range []string{"znode_count", "ephemerals_count", "watch_count"} {
		assert.Equal(t, before[key]+1, after[key], key)
	}
	assert.GreaterOrEqual(t, after["packets_received"], before["packets_received"]+2)
	assert.GreaterOrEqual(t, after["num_alive_connections"], 1.0)
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
