package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

func startZooKeeper(servers int, network *networktest.Network, stock bool) (*service, error) {
	s := &service{
		parameters: "?timeout=2s",
		timeout:    2 * time.Second,
		failover:   failover{usual: 2*time.Second + 200*time.Millisecond}, // rounded up to the server's tick
		entriesAt:  zooKeeperEntries,
		fill:       fillZooKeeper, snapshot: "Getting a snapshot from leader",
	}
	cfg := servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128, Network: network}
	switch {
	case stock:
		const tick = 2 * time.Second
		s.parameters, s.timeout, s.failover.usual = "?timeout=4s", 2*tick, 3*tick // the shortest that they grant
		cfg = servertest.ZooKeeperConfig{Stock: true, Network: network}
	case network != nil:
		// A leader that the others have left continues for this many ticks and more, longer than a session
		// lives.
		cfg.Extra = []string{"syncLimit=30"}
		// A server that lags by more than the 500 transactions in memory gets a snapshot.
		cfg.SystemProperties = map[string]string{"zookeeper.snapCount": "200", "zookeeper.snapshotSizeFactor": "-1"}
	}
	var err error
	s.Cluster, err = services.StartZooKeeper(servers, cfg)
	return s, err
}

// fillZooKeeper writes more than servers keep in memory.
func fillZooKeeper(ctx context.Context, addr string) error {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if _, err := conn.Create(filler, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("fill the log: %w", errors.Join(err, ctx.Err()))
	}
	for range 600 {
		if _, err := conn.Set(filler, nil, -1); err != nil {
			return fmt.Errorf("fill the log: %w", errors.Join(err, ctx.Err()))
		}
	}
	return nil
}

// zooKeeperEntries walks the tree. The client waits until ctx ends for its session, which a quorum grants.
func zooKeeperEntries(ctx context.Context, addr string) ([]string, error) {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if _, err := conn.Sync("/"); err != nil {
		return nil, fmt.Errorf("list the entries: %w", errors.Join(err, ctx.Err()))
	}
	var found []string
	dirs := []string{"/"}
	for len(dirs) > 0 {
		dir := dirs[0]
		dirs = dirs[1:]
		children, _, err := conn.Children(dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, fmt.Errorf("list the entries: %w", err)
		}
		for _, child := range children {
			path := strings.TrimSuffix(dir, "/") + "/" + child
			there, stat, err := conn.Exists(path)
			switch {
			case err != nil:
				return nil, fmt.Errorf("list the entries: %w", err)
			case there && stat.EphemeralOwner != 0:
				found = append(found, fmt.Sprintf("%s of session %x", path, stat.EphemeralOwner))
			}
			dirs = append(dirs, path)
		}
	}
	slices.Sort(found)
	return found, nil
}
