package zktest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// Operator returns a connection of its own to the servers, as another tool would have.
func Operator(t testing.TB, servers ...string) *zk.Conn {
	t.Helper()
	conn := must.Get(connect(servers))(t)
	t.Cleanup(conn.Close)
	return conn
}

// SetQuota makes a node and a quota of as many nodes on it, which counts it.
func SetQuota(t testing.TB, conn *zk.Conn, path string, nodes int) {
	t.Helper()
	quota := "/zookeeper/quota" + path
	for _, node := range [][2]string{
		{path, ""}, {quota, ""}, {quota + "/zookeeper_stats", "count=1,bytes=0"},
		{quota + "/zookeeper_limits", fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", nodes)},
	} {
		must.Get(conn.Create(node[0], []byte(node[1]), 0, zk.WorldACL(zk.PermAll)))(t)
	}
}

func connect(servers []string) (*zk.Conn, error) {
	conn, events, err := zk.Connect(servers, 30*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, err
	}
	timeout := time.After(wait.Patience)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-timeout:
			conn.Close()
			return nil, errors.New("the operator cannot connect")
		}
	}
}

// persistently repeats do while it fails because there is no connection.
func persistently(do func() error) error {
	deadline := time.Now().Add(wait.Patience)
	for {
		err := do()
		if err == nil || time.Now().After(deadline) ||
			!errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) {
			return err
		}
	}
}

// DeleteAll is "rm -r"; a missing path is fine.
func DeleteAll(conn *zk.Conn, path string) error {
	return persistently(func() error {
		for {
			children, _, err := conn.Children(path)
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			for _, child := range children {
				if err := DeleteAll(conn, path+"/"+child); err != nil {
					return err
				}
			}
			switch err := conn.Delete(path, -1); {
			case err == nil, errors.Is(err, zk.ErrNoNode):
				return nil
			case !errors.Is(err, zk.ErrNotEmpty):
				return err
			}
		}
	})
}

// PutAll writes a persistent node and creates its missing ancestors.
func PutAll(conn *zk.Conn, path string, value []byte) error {
	return persistently(func() error {
		for i := 1; i < len(path); i++ {
			if path[i] != '/' {
				continue
			}
			if _, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		_, err := conn.Create(path, value, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = conn.Set(path, value, -1)
		}
		return err
	})
}
