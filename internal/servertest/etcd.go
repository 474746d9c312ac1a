package servertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// EtcdConfig configures one server or every server of a cluster. The zero
// value is ready to use.
type EtcdConfig struct {
	// NoSync, Dir and Network are as in ZooKeeperConfig.
	NoSync  bool
	Dir     string
	Network *networktest.Network

	// Args follow this package's own flags. The last value of a repeated flag counts.
	Args []string

	// Listen are URLs at which a single server serves clients besides its own address, such as an https://
	// URL with the certificate that Args name.
	Listen []string
}

// Etcd is the process of one etcd server. Its methods may be called from any goroutine; those that start or
// end the process exclude each other.
//
// Heartbeats and elections have etcd's default periods. The election period sets the minimum TTL of a
// lease, 2 s: a lease with a shorter TTL lasts that long.
type Etcd struct{ *Server }

// etcdBinary finds or builds the server, once per process.
var etcdBinary = sync.OnceValues(func() (string, error) {
	return buildServer("etcd", "go.etcd.io/etcd/server/v3")
})

// StartEtcd starts a server and blocks until it serves. The first use on a machine builds the server. The
// caller closes it.
func StartEtcd(cfg EtcdConfig) (*Etcd, error) {
	return alone(StartEtcdCluster(1, cfg))
}

// newEtcd prepares a member of a group without starting it. On success the server owns the ports: for
// clients and for the other members.
func newEtcd(cfg EtcdConfig, g *group, node string, at networktest.Site, ports []int) (*Etcd, error) {
	path, err := etcdBinary()
	if err != nil {
		return nil, err
	}
	s, err := newServer("etcd", process.Spec{Name: "etcd " + node, Path: path, Dir: cfg.Dir}, at, ports)
	if err != nil {
		return nil, err
	}
	e := &Etcd{s}
	g.members = append(g.members, s)
	s.node = node
	s.prepare = func() error {
		err := g.enter(s)
		s.proc.Spec.Args = e.args(cfg, g)
		return err
	}
	s.forget = e.swap
	s.probe = func(timeout time.Duration) error { return e.ask(timeout, http.MethodGet, "/health", "", nil) }
	return e, nil
}

// args is the server's command line.
func (e *Etcd) args(cfg EtcdConfig, g *group) []string {
	var peers []string
	for _, m := range g.members {
		peers = append(peers, m.node+"="+m.etcdPeerURL())
	}
	state := "new"
	if e.replaced {
		state = "existing"
	}
	args := []string{
		"--name", e.node,
		"--data-dir", e.dataDir,
		"--listen-client-urls", strings.Join(append([]string{e.URL()}, cfg.Listen...), ","),
		"--advertise-client-urls", e.URL(),
		"--listen-peer-urls", e.etcdPeerURL(),
		"--initial-advertise-peer-urls", e.etcdPeerURL(),
		"--initial-cluster", strings.Join(peers, ","),
		"--initial-cluster-state", state,
		// A member that has lost its data is replaced at once. With the check, etcd refuses that until the
		// others have been connected for five seconds.
		"--strict-reconfig-check=false",
	}
	if cfg.NoSync {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, cfg.Args...)
}

func (s *Server) etcdPeerURL() string { return "http://" + s.at.Addr(s.ports[1]) }

// URL returns the client address as a URL.
func (e *Etcd) URL() string { return "http://" + e.Addr() }

// ask sends a request to the server's HTTP API.
func (e *Etcd) ask(timeout time.Duration, method, path, body string, result any) error {
	return ask(timeout, method, e.URL()+path, nil, body, result)
}

// leads returns the raft term if the server leads and a quorum confirms it.
func (e *Etcd) leads() (uint64, error) {
	var status struct {
		Header struct {
			Member uint64 `json:"member_id,string"`
		} `json:"header"`
		Leader uint64 `json:"leader,string"`
		Term   uint64 `json:"raftTerm,string"`
	}
	if err := e.ask(answerTimeout, http.MethodPost, "/v3/maintenance/status", "{}", &status); err != nil {
		return 0, err
	}
	if status.Leader == 0 || status.Leader != status.Header.Member {
		return 0, nil
	}
	return status.Term, e.probe(answerTimeout)
}

// EtcdCluster is a group of etcd servers that replicate each other.
type EtcdCluster = Cluster[*Etcd]

// StartEtcdCluster starts n servers (usually three or five) in parallel and blocks until all serve and one
// of them leads. The caller closes it.
//
// A wiped member comes back as an operator would bring it back: its next start removes the old member from
// the cluster and adds a new one. That start waits until a quorum of the others serves, for wait.Patience
// at most. If two of five members were wiped, start one after the other.
func StartEtcdCluster(n int, cfg EtcdConfig) (*EtcdCluster, error) {
	g := new(group)
	return startCluster(cfg.Network, n, 2, func(i int, sites []networktest.Site, ports [][]int) (*Etcd, error) {
		return newEtcd(cfg, g, "server-"+strconv.Itoa(i+1), sites[i], ports[i])
	})
}

// swap removes the member with the peer URL of the lost one, if any, and adds a new one there.
func (e *Etcd) swap(lost *Server) error {
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
