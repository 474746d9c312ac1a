package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elector-go/elector/internal/servertest"
)

func startEtcd(servers int) (*service, error) {
	c, err := servertest.StartEtcdCluster(servers, servertest.EtcdConfig{NoSync: true})
	if err != nil {
		return nil, err
	}
	s := &service{
		servers: asServers(c.Members),
		leader:  func() (server, error) { return c.Leader() },
		url:     func(addrs ...string) string { return "etcd://" + strings.Join(addrs, ",") + "?timeout=2s" },
		timeout: 2 * time.Second,
		// The servers look for leases that are over each half second.
		failover: failover{usual: 2*time.Second + 500*time.Millisecond},
	}
	s.access = s.servers
	s.entries = func(ctx context.Context) ([]string, error) { return etcdEntries(ctx, s.servers[0].Addr()) }
	return s, nil
}

func etcdEntries(ctx context.Context, addr string) ([]string, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
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
