package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

func startConsul(servers int, network *networktest.Network, parameters string, timeout time.Duration, failover failover) (*service, error) {
	cfg := servertest.ConsulConfig{NoSync: true, Network: network}
	if network != nil {
		cfg.Config = `raft_snapshot_threshold = 50, raft_snapshot_interval = "100ms", raft_trailing_logs = 10`
	}
	s, err := consulWith(servers, cfg, parameters, timeout, failover)
	if err == nil {
		s.fill = fillConsul
	}
	return s, err
}

// startStockConsul leaves the servers as they are installed: each write on the disk, a long log, and Raft
// that takes its time. Sessions have a TTL alone.
func startStockConsul(servers int, network *networktest.Network) (*service, error) {
	cfg := servertest.ConsulConfig{Network: network, Config: `
		performance { raft_multiplier = 5 }
		autopilot { server_stabilization_time = "10s" }
		connect { enabled = true }
		peering { enabled = true }`}
	return consulWith(servers, cfg, "?timeout=10s", 10*time.Second, failover{usual: 20 * time.Second})
}

func consulWith(servers int, cfg servertest.ConsulConfig, parameters string, timeout time.Duration, failover failover) (*service, error) {
	c, err := services.StartConsul(servers, cfg)
	if err != nil {
		return nil, err
	}
	return &service{
		Cluster: c, parameters: parameters,
		timeout: timeout, failover: failover,
		entriesAt: consulEntries,
		network:   cfg.Network, snapshot: "Installed remote snapshot",
		leave: leaveConsul,
	}, nil
}

func consulClient(addr string) (*api.Client, error) {
	cfg := api.DefaultConfig()
	cfg.Address = addr
	cfg.Transport.Proxy, cfg.Transport.DisableKeepAlives = nil, true
	return api.NewClient(cfg)
}

// leaveConsul takes a server out of the catalog and of Raft, as "consul leave" does.
func leaveConsul(addr string) error {
	client, err := consulClient(addr)
	if err != nil {
		return err
	}
	return client.Agent().Leave()
}

// fillConsul writes four times as much as a server keeps in its log, and waits until it has
// been looked at how much that is.
func fillConsul(ctx context.Context, addr string) error {
	client, err := consulClient(addr)
	if err != nil {
		return err
	}
	for i := range 240 {
		kv := &api.KVPair{Key: strings.TrimPrefix(filler, "/"), Value: []byte(strconv.Itoa(i))}
		if _, err := client.KV().Put(kv, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
			return fmt.Errorf("fill the log: %w", err)
		}
	}
	return program.Sleep(ctx, 500*time.Millisecond)
}

func consulEntries(ctx context.Context, addr string) ([]string, error) {
	client, err := consulClient(addr)
	if err != nil {
		return nil, err
	}
	all, _, err := client.KV().List("", (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("list the entries: %w", err)
	}
	var found []string
	for _, kv := range all {
		if kv.Session != "" {
			found = append(found, fmt.Sprintf("%q of session %s", kv.Key, kv.Session))
		}
	}
	return found, nil
}
