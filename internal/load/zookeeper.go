package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/internal/servertest"
)

const (
	tick       = 200 * time.Millisecond // the server's: it expires sessions in steps of this
	maxTTL     = 10 * time.Minute
	otherFiles = 200
)

type zooKeeperWorld struct {
	cfg    config
	server *servertest.ZooKeeper
}

func startZooKeeper(cfg config) (world, error) {
	if err := program.EnoughFiles(cfg.candidates + otherFiles); err != nil {
		return nil, err
	}
	server, err := servertest.StartZooKeeper(servertest.ZooKeeperConfig{
		TickTime: tick, MaxSessionTimeout: maxTTL, HeapMB: cfg.heapMB, NoSync: true, Dir: cfg.dir,
	})
	if err != nil {
		return nil, err
	}
	return &zooKeeperWorld{cfg, server}, nil
}

func (z *zooKeeperWorld) open() (process, error) {
	l := &link{conns: make(map[net.Conn]struct{})}
	b, err := zookeeper.New(zookeeper.Config{
		Servers: []string{z.server.Addr()}, SessionTimeout: z.cfg.ttl, Dialer: l.dial,
	})
	return process{backend: b, cut: l.cut, mend: l.mend, doomed: new(atomic.Bool)}, err
}

// metrics asks a server that may be too busy to answer at once.
func (z *zooKeeperWorld) metrics() (m map[string]float64, err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if m, err = z.server.Metrics(); err == nil {
			return m, nil
		}
	}
	return nil, err
}

func (z *zooKeeperWorld) sessions() (int, error) {
	m, err := z.metrics()
	return int(m["global_sessions"]), err
}

func (z *zooKeeperWorld) figures() (census, error) {
	m, err := z.metrics()
	if err != nil {
		return nil, err
	}
	var all census
	for _, f := range []struct{ key, name string }{
		{"global_sessions", "sessions"}, {"num_alive_connections", "connections"}, {"znode_count", "znodes"},
		{"ephemerals_count", "ephemeral ones"}, {"watch_count", "watches"},
	} {
		n, ok := m[f.key]
		if !ok {
			return nil, fmt.Errorf("the server's mntr has no %s", f.key)
		}
		all = append(all, figure{f.name, int(n)})
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil { // where there is such a thing
		all = append(all, figure{"open files", len(files)})
	}
	return all, nil
}

func (z *zooKeeperWorld) close() error { return z.server.Close() }

// A link is what a process has connections by.
type link struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("the link is cut")

func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errCut // the server is not to be bothered
	}
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = conn.Close() // it has not been used
		return nil, errCut
	}
	l.conns[conn] = struct{}{}
	return &linked{conn, l}, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for conn := range l.conns {
		_ = conn.Close() // the client library finds out
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

type linked struct {
	net.Conn
	l *link
}

func (c *linked) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c.Conn)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
