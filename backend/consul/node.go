package consul

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// SessionNode is the node of the catalog that all sessions without a Config.Check are on. It is an
// external node, as Consul calls one that has no agent: no agent may have this name.
//
// A session ends with its node. An agent's node is taken out of the catalog within seconds if autopilot
// finds a server dead, as it does by default, or as soon as the agent leaves, regardless of the TTL of
// its sessions, on which a process that reaches only this agent relies. Servers remove a node because of
// its agent (Server.reconcile looks at members of the gossip, and at nodes that have a check
// "serfHealth"), and this node has none.
const SessionNode = "elector-sessions"

// sessionNode is what is registered. Nobody connects to the address. consul-esm, which monitors
// external nodes, removes those that it cannot reach; it does not try to reach this one.
var sessionNode = api.Node{
	Node:    SessionNode,
	Address: "127.0.0.1",
	Meta:    map[string]string{"external-node": "true", "external-probe": "false"},
}

// registration is how an operator registers the node.
const registration = `curl -X PUT -H "X-Consul-Token: $TOKEN" -d '{"Node":"` + SessionNode + `","Address":"127.0.0.1",` +
	`"NodeMeta":{"external-node":"true","external-probe":"false"}}' $CONSUL_HTTP_ADDR/v1/catalog/register`

// missingNode reports whether there is no such node in the catalog.
func missingNode(err error) bool { return strings.Contains(err.Error(), "Missing node registration") }

// registerNode puts the node into the catalog, once for all. Nothing removes it: others may have
// sessions on it at any time. A transaction creates it only if it does not exist, and in the client's
// datacenter; /v1/catalog/register overwrites, and uses the agent's.
func (b *Backend) registerNode(ctx context.Context, l lease) error {
	ops := api.TxnOps{{Node: &api.NodeTxnOp{Verb: api.NodeCAS, Node: sessionNode}}}
	_, err := bounded(ctx, l.patience(), func(ctx context.Context) (*api.WriteMeta, error) {
		return b.client.Raw().Write("/v1/txn", ops, new(api.TxnResponse), new(api.WriteOptions).WithContext(ctx))
	})
	if code(err) == http.StatusConflict {
		var refused *api.TxnResponse
		if refused, err = rolledBack(err); err == nil {
			err = refusal(refused.Errors[0])
		}
	}
	switch {
	case err == nil, strings.Contains(err.Error(), "index is stale"): // somebody else has created it
		return nil
	case forbidden(err):
		return fmt.Errorf("%w: sessions are on the node %q of the catalog, which is not there yet: give the token node %[2]q { policy = \"write\" } until it is, "+
			"or have an operator make it: %s: %w", backend.ErrDenied, SessionNode, registration, err)
	}
	return err
}
