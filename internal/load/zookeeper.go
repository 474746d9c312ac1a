package main

import (
	"fmt"
	"os"
	"time"

	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

const (
	tick       = 200 * time.Millisecond // the server's unit: it expires sessions in steps of this
	maxTTL     = 10 * time.Minute
	otherFiles = 200
)

type zooKeeperWorld struct {
	*services.Cluster
	remote services.Remote
}

func startZooKeeper(cfg config) (world, error) {
	if err := program.EnoughFiles(cfg.candidates + otherFiles); err != nil {
		return nil, err
	}
	c, err := services.StartZooKeeper(1, servertest.ZooKeeperConfig{
		TickTime: tick, MaxSessionTimeout: maxTTL, HeapMB: cfg.heapMB, NoSync: true, Dir: cfg.dir,
	})
	if err != nil {
		return nil, err
	}
	return &zooKeeperWorld{c, services.Remote{URL: c.URL("?timeout="+cfg.ttl.String(), c.Addr())}}, nil
}

func (z *zooKeeperWorld) open() (services.Client, error) { return z.remote.Client() }

// figures asks a server that may be too busy to answer at once.
func (z *zooKeeperWorld) figures() (census, error) {
	m, err := servertest.ZooKeeperMetrics(z.Addr())
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		m, err = servertest.ZooKeeperMetrics(z.Addr())
	}
	if err != nil {
		return nil, err
	}
	all := make(census)
	for key, name := range map[string]string{
		"global_sessions": "sessions", "num_alive_connections": "connections", "znode_count": "znodes",
		"ephemerals_count": "ephemeral ones", "watch_count": "watches",
	} {
		n, ok := m[key]
		if !ok {
			return nil, fmt.Errorf("the server's mntr has no %s", key)
		}
		all[name] = int(n)
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil { // on systems that have it
		all["open files"] = len(files)
	}
	return all, nil
}

func (z *zooKeeperWorld) close() error { return z.Close() }
