//go:build unix

package proxytest

import (
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// connect returns a client with a session.
func connect(t *testing.T, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	must(t, err)
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
	must(t, err)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
