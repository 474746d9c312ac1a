package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

func startZooKeeper(servers int, network *networktest.Network) (*service, error) {
	cfg := servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128, Network: network}
	if network != nil {
		// A leader that was left goes on for so many ticks and more, longer than a session
		// lives.
		cfg.Extra = []string{"syncLimit=30"}
		// Whoever is behind by more than the 500 transactions in memory gets a snapshot.
		cfg.SystemProperties = map[string]string{"zookeeper.snapCount": "200", "zookeeper.snapshotSizeFactor": "-1"}
	}
	c, err := services.StartZooKeeper(servers, cfg)
	if err != nil {
		return nil, err
	}
	return &service{
		Cluster: c, parameters: "?timeout=2s",
		timeout:   2 * time.Second,
		failover:  failover{usual: 2*time.Second + 200*time.Millisecond}, // rounded up to the server's tick
		entriesAt: zooKeeperEntries,
		network:   network, fill: fillZooKeeper, snapshot: "Getting a snapshot from leader",
	}, nil
}

// startStockZooKeeper leaves the servers as they are installed: ticks of 2 s, and each write on the disk.
func startStockZooKeeper(servers int, network *networktest.Network) (*service, error) {
	c, err := services.StartZooKeeper(servers, servertest.ZooKeeperConfig{Stock: true, Network: network})
	if err != nil {
		return nil, err
	}
	const tick = 2 * time.Second
	return &service{
		Cluster: c, parameters: "?timeout=4s",
		timeout:   2 * tick, // the shortest that they grant
		failover:  failover{usual: 3 * tick},
		entriesAt: zooKeeperEntries,
		network:   network,
	}, nil
}

// fillZooKeeper writes more than servers have in memory.
func fillZooKeeper(ctx context.Context, addr string) error {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
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

// zooKeeperEntries walks the tree. A client waits for its session, which a quorum grants,
// for as long as ctx lets it.
func zooKeeperEntries(ctx context.Context, addr string) ([]string, error) {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
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

type quiet struct{}

func (quiet) Printf(string, ...any) {}
