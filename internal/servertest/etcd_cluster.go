package servertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/elector-go/elector/internal/networktest"
)

// EtcdCluster is a group of etcd servers that replicate each other.
type EtcdCluster struct {
	*cluster[*Etcd]
}

// StartEtcdCluster starts n servers (three or five, usually) side by side and
// blocks until all serve and one of them leads. The caller closes it.
//
// A member that was wiped comes back as an operator would bring it back: its
// next start removes the old member from the cluster and adds a new one. That
// start waits until a quorum of the others serves, for wait.Patience at most. Of
// five members, two that were wiped are to be started one after the other.
func StartEtcdCluster(n int, cfg EtcdConfig) (*EtcdCluster, error) {
	cfg = cfg.withDefaults()
	g := new(group)
	c, err := startCluster(cfg.Network, n, 2, func(i int, sites []networktest.Site, ports [][]int) (*Etcd, error) {
		return newEtcd(cfg, g, "server-"+strconv.Itoa(i+1), sites[i], ports[i])
	})
	if err != nil {
		return nil, err
	}
	return &EtcdCluster{c}, nil
}

// swap removes whatever member has the peer URL of the lost one, and adds a new
// one there.
func (e *Etcd) swap(lost *server) error {
	peerURL := lost.etcdPeerURL()
	var list struct {
		Members []struct {
			ID       string
			PeerURLs []string
		}
	}
	if err := e.change("list", object{"linearizable": true}, &list); err != nil {
		return err
	}
	for _, m := range list.Members {
		if !slices.Contains(m.PeerURLs, peerURL) {
			continue
		}
		if err := e.change("remove", object{"ID": m.ID}, nil); err != nil {
			return err
		}
	}
	return e.change("add", object{"peerURLs": []string{peerURL}}, nil)
}

// change calls a method of etcd's cluster API.
func (e *Etcd) change(method string, request object, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return e.ask(answerTimeout, http.MethodPost, "/v3/cluster/member/"+method, string(body), result)
}
