package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/internal/servertest"
)

// startConsul starts servers, and for a cluster one agent beside them, which the
// candidates talk to: a session that is tied to a health check is tied to one agent.
func startConsul(servers int, parameters string, timeout time.Duration, failover failover) (*service, error) {
	c, err := servertest.StartConsulCluster(servers, servertest.ConsulConfig{NoSync: true})
	if err != nil {
		return nil, err
	}
	s := &service{
		servers: asServers(c.Members),
		leader:  func() (server, error) { return c.Leader() },
		url:     func(addrs ...string) string { return "consul://" + addrs[0] + parameters },
		timeout: timeout, failover: failover,
	}
	s.access = s.servers
	if servers > 1 {
		agent, err := servertest.StartConsulAgent(c.Members, servertest.ConsulConfig{NoSync: true})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		s.access = []server{agent}
	}
	s.entries = func(ctx context.Context) ([]string, error) { return consulEntries(ctx, s.access[0].Addr()) }
	return s, nil
}

func consulEntries(ctx context.Context, addr string) ([]string, error) {
	cfg := api.DefaultConfig()
	cfg.Address = addr
	cfg.Transport.Proxy, cfg.Transport.DisableKeepAlives = nil, true
	client, err := api.NewClient(cfg)
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
