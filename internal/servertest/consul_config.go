package servertest

import (
	"encoding/json"
	"maps"

	"github.com/elector-go/elector/internal/networktest"
)

// ConsulConfig configures one agent or every server of a cluster. The zero
// value is ready to use.
type ConsulConfig struct {
	// ACL makes the servers deny whatever no token allows. See Consul.Token.
	// A client agent takes this from its servers.
	ACL bool

	// NoSync has the agent's files in memory, unless Dir is set or there is no
	// room: Consul cannot be told not to sync its log, and while others write
	// to the same disk that may take longer than a session lives. A killed
	// process still loses nothing.
	NoSync bool

	// Dir and Network are as in ZooKeeperConfig.
	Dir     string
	Network *networktest.Network

	// Config is HCL or JSON that is read after this package's own. A key given
	// twice counts with its last value: session_ttl_min = "1s" lets servers
	// accept sessions shorter than 10 s.
	Config string
}

func (c ConsulConfig) withDefaults() ConsulConfig {
	if c.NoSync && c.Dir == "" {
		c.Dir = MemoryDir()
	}
	return c
}

// file renders the agent's configuration. It joins the agents that gossip at
// the addresses, of which its own may be one. The cluster is founded by so many
// servers; a client agent has 0.
//
// All else is as Consul has it by default, above all what takes nodes out of the
// catalog: autopilot cleans dead servers up, and client agents leave when they are
// stopped.
func (c *Consul) file(servers int, gossip []string) ([]byte, error) {
	file := object{
		// Many agents of many clusters are side by side on one machine.
		"node_name":      c.node,
		"data_dir":       c.dataDir,
		"bind_addr":      c.at.IP,
		"client_addr":    c.at.IP,
		"encrypt":        c.gossip,
		"retry_join":     gossip,
		"retry_interval": "200ms", // they start at once, and do not find each other at first
		"ports": object{
			"http": c.ports[0], "serf_lan": c.ports[1], "server": c.ports[2],
			"serf_wan": -1, "dns": -1, "https": -1, "grpc": -1, "grpc_tls": -1,
		},
		// No election has to do with these, and they cost each leader a start of their own.
		"connect": object{"enabled": false},
		"peering": object{"enabled": false},
		// It would ask a server of Consul's makers.
		"disable_update_check": true,
		// Raft as fast as in production on fast machines. Gossip is left as it is:
		// a busy machine would make faster probes take the living for dead.
		"performance": object{"raft_multiplier": 1},
	}
	if servers > 0 {
		maps.Copy(file, object{
			"server":           true,
			"bootstrap_expect": servers,
			// A server that has lost its data, or was cleaned up while it was down, gets its
			// vote as soon as the leader looks, every ten seconds.
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
