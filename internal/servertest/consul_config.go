package servertest

import (
	"encoding/json"
	"maps"

	"github.com/elector-go/elector/internal/networktest"
)

// ConsulConfig configures one agent or every server of a cluster. The zero value is ready to use.
type ConsulConfig struct {
	// ACL makes the servers deny everything that no token allows. See Consul.Token. A client agent takes
	// this setting from its servers.
	ACL bool

	// NoSync keeps the agent's files in memory, unless Dir is set or there is no room: Consul always syncs
	// its log, and while other processes write to the same disk that may take longer than a session lives.
	// A killed process still loses nothing.
	NoSync bool

	// Dir and Network are as in ZooKeeperConfig.
	Dir     string
	Network *networktest.Network

	// Config is HCL or JSON that is read after this package's own. The last value of a repeated key counts:
	// session_ttl_min = "1s" makes servers accept sessions shorter than 10 s.
	Config string
}

func (c ConsulConfig) withDefaults() ConsulConfig {
	if c.NoSync && c.Dir == "" {
		c.Dir = MemoryDir()
	}
	return c
}

// file returns the agent's configuration. The agent joins the agents at the gossip addresses, which may
// include its own. servers is the number of servers that found the cluster, or 0 for a client agent.
//
// All else is Consul's default, above all what removes nodes from the catalog: autopilot removes dead
// servers, and client agents leave when they are stopped.
func (c *Consul) file(servers int, gossip []string) ([]byte, error) {
	file := object{
		// Many agents of many clusters share one machine.
		"node_name":      c.node,
		"data_dir":       c.dataDir,
		"bind_addr":      c.at.IP,
		"client_addr":    c.at.IP,
		"encrypt":        c.gossip,
		"retry_join":     gossip,
		"retry_interval": "200ms", // they start at the same time and do not find each other at first
		"ports": object{
			"http": c.ports[0], "serf_lan": c.ports[1], "server": c.ports[2],
			"serf_wan": -1, "dns": -1, "https": -1, "grpc": -1, "grpc_tls": -1,
		},
		// Elections use neither, and each costs a new leader time.
		"connect": object{"enabled": false},
		"peering": object{"enabled": false},
		// The check would ask a server of Consul's makers.
		"disable_update_check": true,
		// Raft is as fast as in production on fast machines. Gossip keeps its defaults: on a busy machine
		// faster probes would declare live members dead.
		"performance": object{"raft_multiplier": 1},
	}
	if servers > 0 {
		maps.Copy(file, object{
			"server":           true,
			"bootstrap_expect": servers,
			// A server that has lost its data, or was removed while it was down, gets its vote as soon as
			// the leader looks, every ten seconds.
			"autopilot": object{"server_stabilization_time": "0s"},
		})
	}
	if c.token != "" {
		tokens := object{"agent": c.token}
		if servers > 0 {
			tokens["initial_management"] = c.token
		}
		file["acl"] = object{"enabled": true, "default_policy": "deny", "tokens": tokens}
	}
	return json.MarshalIndent(file, "", "  ")
}
