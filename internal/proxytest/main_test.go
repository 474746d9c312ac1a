//go:build unix

package proxytest

import (
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// connect returns a client with a session.
func connect(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
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
