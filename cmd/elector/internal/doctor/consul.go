package doctor

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
)

const lonely = "half of Consul's servers or more may be down: consul members, consul operator raft list-peers"

// perCandidate is how many connections a candidate may need at its agent.
const perCandidate = 5

// consul asks an agent about itself, and whether the servers have a leader.
func (s *Server) consul(ctx context.Context, b *consul.Backend) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	client := b.Client()
	leader := ""
	_, err := client.Raw().Query("/v1/status/leader", &leader, new(api.QueryOptions).WithContext(ctx))
	var status api.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusInternalServerError: // the servers' own errors
		s.unfit("leader", lonely, "the agent answers, and reaches no servers: %s", status.Body)
		return
	case err != nil:
		s.failed(ctx, err)
		return
	case leader == "":
		s.unfit("leader", lonely, "the agent answers, and the servers have no leader")
		return
	}
	s.Findings.add("leader", OK, "", "the servers' leader is %.60s", leader)

	var self struct {
		Config struct {
			Version string
			Server  bool
		}
		DebugConfig struct {
			HTTPMaxConnsPerClient       *int
			LeaveOnTerm, SkipLeaveOnInt *bool
		}
		Stats struct{ Consul struct{ Leader string } }
	}
	_, err = client.Raw().Query("/v1/agent/self", &self, new(api.QueryOptions).WithContext(ctx))
	switch {
	case errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized):
		s.Findings.add("settings", Unknown, `to see them here, give the token agent_prefix "" { policy = "read" }`, "the token may not read the agent's settings")
		return
	case err != nil:
		s.failed(ctx, err)
		return
	}
	s.tellVersion(self.Config.Version, 1, 0)
	switch {
	case !self.Config.Server:
		s.Findings.add("role", OK, "", "client agent")
	case self.Stats.Consul.Leader == "true":
		s.Findings.add("role", OK, "", "server, leader")
	default:
		s.Findings.add("role", OK, "", "server, follower")
	}
	d := self.DebugConfig
	if d.HTTPMaxConnsPerClient == nil {
		s.Findings.add("connections", Unknown, "", "the agent does not tell http_max_conns_per_client")
	} else if n := *d.HTTPMaxConnsPerClient; n > 0 && n < 10*perCandidate {
		s.Findings.add("connections", Warn, "raise limits.http_max_conns_per_client", "http_max_conns_per_client is %d: enough for %d candidates from one address", n, n/perCandidate)
	} else {
		s.Findings.add("connections", OK, "", "http_max_conns_per_client is %d (0: any number); a candidate needs %d at most", n, perCandidate)
	}
	if !checked(b) {
		return // sessions are on a node that does not leave with an agent
	}
	if d.LeaveOnTerm != nil && *d.LeaveOnTerm || d.SkipLeaveOnInt != nil && !*d.SkipLeaveOnInt {
		s.Findings.add("leave", Warn, "set leave_on_terminate = false and skip_leave_on_interrupt = true, or leave out check=",
			"an agent that is stopped leaves, and ends the sessions of its candidates at once")
	}
	if self.Config.Server {
		s.autopilot(ctx, client)
	}
}

// checked reports whether sessions are tied to checks of the agent, and so to its node.
func checked(b *consul.Backend) bool { return b.Limits().MinTTL == consul.MinCheck }

// autopilot checks whether the servers remove a server from the catalog when it is cut off.
func (s *Server) autopilot(ctx context.Context, client *api.Client) {
	set, err := client.Operator().AutopilotGetConfiguration(new(api.QueryOptions).WithContext(ctx))
	var status api.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusForbidden:
		s.Findings.add("autopilot", Unknown, `to see it here, give the token operator = "read"`, "the token may not read whether autopilot takes servers out")
	case err != nil:
		s.Findings.add("autopilot", Unknown, "", "%v", err)
	case set.CleanupDeadServers:
		s.Findings.add("autopilot", Warn, "name a client agent in the URL, or leave out check=, or set autopilot's cleanup_dead_servers = false",
			"a server that is cut off is taken out of the catalog within seconds, and with check= its sessions end while their leaders go on: two may lead")
	default:
		s.Findings.add("autopilot", OK, "", "servers that are cut off stay in the catalog")
	}
}

// sessionNode checks that the node of the sessions, which exists once one was opened, is no agent's.
func sessionNode(ctx context.Context, b *consul.Backend, f *Findings) {
	if checked(b) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	node, meta, err := b.Client().Catalog().Node(consul.SessionNode, new(api.QueryOptions).WithContext(ctx))
	switch {
	case err != nil:
		f.add("node", Unknown, "", "%v", err)
	case node == nil || node.Node == nil || meta.ResultsFilteredByACLs:
		f.add("node", Unknown, `to see it here, give the token node "`+consul.SessionNode+`" { policy = "read" }`, "the token may not read the node that sessions are on")
	case node.Node.ID != "": // agents have one
		f.add("node", Warn, "give that agent another node_name, and remove the node", "sessions are on the node %s, which is an agent's: they end as it leaves the catalog", consul.SessionNode)
	default:
		f.add("node", OK, "", "sessions are on the external node %s, and end with no agent", consul.SessionNode)
	}
}
