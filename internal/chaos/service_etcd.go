package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

func startEtcd(servers int, network *networktest.Network, stock bool) (*service, error) {
	cfg := servertest.EtcdConfig{NoSync: !stock, Network: network}
	if network != nil && !stock {
		cfg.Args = []string{"--snapshot-count", "50", "--snapshot-catchup-entries", "10"}
	}
	c, err := services.StartEtcd(servers, cfg)
	return &service{
		Cluster: c, parameters: "?timeout=2s",
		timeout: 2 * time.Second,
		// Every half second the servers look for leases that have expired.
		failover:  failover{usual: 2*time.Second + 500*time.Millisecond},
		entriesAt: etcdEntries,
		fill:      fillEtcd, snapshot: "applied snapshot",
		keeps: "skip compaction", // for 30 s after it has sent a snapshot
	}, err
}

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
}

// fillEtcd writes four times as much as a member keeps in its log.
func fillEtcd(ctx context.Context, addr string) error {
	client, err := etcdClient(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range 200 {
		if _, err := client.Put(ctx, filler, strconv.Itoa(i)); err != nil {
			return fmt.Errorf("fill the log: %w", err)
		}
	}
	return nil
}

func etcdEntries(ctx context.Context, addr string) ([]string, error) {
	client, err := etcdClient(addr)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("list the entries: %w", err)
	}
	var found []string
	for _, kv := range all.Kvs {
		if kv.Lease != 0 {
			found = append(found, fmt.Sprintf("%q of lease %x", kv.Key, kv.Lease))
		}
	}
	return found, nil
}
