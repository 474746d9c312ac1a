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
// external node, as Consul calls one that no agent stands for: no agent may have this name.
//
// A session ends with its node. That of an agent is taken out of the catalog within seconds where
// autopilot finds a server dead, as it does by default, or as soon as the agent leaves, whatever TTL
// its sessions have, while a process that reaches this agent alone counts on that. Servers remove a
// node by its agent (Server.reconcile looks at members of the gossip, and at nodes that have a check
// "serfHealth"), and this one has none.
const SessionNode = "elector-sessions"

// sessionNode is what is registered. Nobody connects to the address. consul-esm, which watches over
// external nodes, takes those out that it cannot reach; this one it does not try to.
var sessionNode = api.Node{
	Node:    SessionNode,
	Address: "127.0.0.1",
	Meta:    map[string]string{"external-node": "true", "external-probe": "false"},
}

// registration is how an operator registers the node.
const registration = `curl -X PUT -H "X-Consul-Token: $TOKEN" -d '{"Node":"` + SessionNode + `","Address":"127.0.0.1",` +
	`"NodeMeta":{"external-node":"true","external-probe":"false"}}' $CONSUL_HTTP_ADDR/v1/catalog/register`

// missingNode tells whether there is no such node in the catalog.
func missingNode(err error) bool { return strings.Contains(err.Error(), "Missing node registration") }

// registerNode puts the node into the catalog, once for all. Nobody takes it out: others may have
// sessions on it at any time. A transaction makes it only where it is not there, and in the client's
// datacenter; /v1/catalog/register overwrites, and is of the agent's.
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
	case err == nil, strings.Contains(err.Error(), "index is stale"): // somebody else has made it
		return nil
	case forbidden(err):
		return fmt.Errorf("%w: sessions are on the node %q of the catalog, which is not there yet: give the token node %[2]q { policy = \"write\" } until it is, "+
			"or have an operator make it: %s: %w", backend.ErrDenied, SessionNode, registration, err)
	}
	return err
}
