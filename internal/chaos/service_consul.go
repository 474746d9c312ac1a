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

// startConsul starts Consul with sessions tied to a health check. A check lives one second longer at the
// agent than the session assumes.
func startConsul(servers int, network *networktest.Network, _ bool) (*service, error) {
	s, err := startConsulTTL(servers, network, false)
	s.parameters, s.timeout = "?check=2s", 2*time.Second
	s.failover = failover{usual: 3 * time.Second, slow: 20 * time.Second, slowFor: 30 * time.Second}
	return s, err
}

// startConsulTTL starts Consul with sessions that have only a TTL, which the servers double.
func startConsulTTL(servers int, network *networktest.Network, stock bool) (*service, error) {
	cfg := servertest.ConsulConfig{NoSync: !stock, Network: network}
	switch {
	case stock: // Raft takes its time, too
		cfg.Config = `
			performance { raft_multiplier = 5 }
			autopilot { server_stabilization_time = "10s" }
			connect { enabled = true }
			peering { enabled = true }`
	case network != nil:
		cfg.Config = `raft_snapshot_threshold = 50, raft_snapshot_interval = "100ms", raft_trailing_logs = 10`
	}
	c, err := services.StartConsul(servers, cfg)
	return &service{
		Cluster: c, parameters: "?timeout=10s",
		timeout: 10 * time.Second, failover: failover{usual: 20 * time.Second},
		entriesAt: consulEntries,
		fill:      fillConsul, snapshot: "Installed remote snapshot",
		leave: leaveConsul,
	}, err
}

func consulClient(addr string) (*api.Client, error) {
	cfg := api.DefaultConfig()
	cfg.Address = addr
	cfg.Transport.Proxy, cfg.Transport.DisableKeepAlives = nil, true
	return api.NewClient(cfg)
}

// leaveConsul removes a server from the catalog and from Raft, like "consul leave".
func leaveConsul(addr string) error {
	client, err := consulClient(addr)
	if err != nil {
		return err
	}
	return client.Agent().Leave()
}

// fillConsul writes four times as much as a server keeps in its log, and waits until the server has checked
// the size of its log.
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
