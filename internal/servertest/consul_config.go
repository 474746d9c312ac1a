package servertest

import (
	"encoding/json"
	"io"
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

	// Dir is an existing folder in which the agent makes a new folder for
	// its files; by default the system's folder for temporary files.
	Dir string

	// Config is HCL or JSON that is read after this package's own. A key given
	// twice counts with its last value: session_ttl_min = "1s" lets servers
	// accept sessions shorter than 10 s.
	Config string

	// Network, if not nil, is where the agent or the members of a cluster run. By default
	// servers listen on 127.0.0.1.
	Network *networktest.Network

	// Log receives a copy of the agent's output, which always goes to a file
	// in the agent's folder. Writes are serialised within one agent or
	// cluster. The writer must not block.
	Log io.Writer
}

func (c ConsulConfig) withDefaults() ConsulConfig {
	if c.NoSync && c.Dir == "" {
		c.Dir = memory()
	}
	c.Log = share(c.Log)
	return c
}

// file renders the agent's configuration. It joins the agents that gossip at
// the addresses, of which its own may be one. The cluster is founded by so many
// servers; a client agent has 0.
func (c *Consul) file(servers int, gossip []string) ([]byte, error) {
	file := object{
		"node_name":      c.node,
		"data_dir":       c.dataDir,
		"bind_addr":      c.at.IP,
		"client_addr":    c.at.IP,
		"encrypt":        c.gossip,
		"retry_join":     gossip,
		"retry_interval": "200ms",
		"ports": object{
			"http": c.ports[0], "serf_lan": c.ports[1], "server": c.ports[2],
			"serf_wan": -1, "dns": -1, "https": -1, "grpc": -1, "grpc_tls": -1,
		},
		"connect":                     object{"enabled": false},
		"peering":                     object{"enabled": false},
		"leave_on_terminate":          false, // Stop does not change the cluster
		"disable_update_check":        true,
		"disable_anonymous_signature": true,
		// Raft as fast as in production on fast machines. Gossip is left as it is:
		// a busy machine would make faster probes take the living for dead, and
		// that ends sessions.
		"performance": object{"raft_multiplier": 1},
	}
	if servers > 0 {
		maps.Copy(file, object{
			"server":           true,
			"bootstrap_expect": servers,
			// Members that are down come back. One that has lost its data gets
			// its vote as soon as the leader looks, every ten seconds.
			"autopilot": object{"cleanup_dead_servers": false, "server_stabilization_time": "0s"},
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
