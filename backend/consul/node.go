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
// external node, as Consul calls one that has no agent: no agent may have this name. A session ends with
// its node. Servers take an agent's node out of the catalog because of its agent, and never this one.
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
