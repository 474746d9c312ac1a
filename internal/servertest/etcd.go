package servertest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// EtcdConfig configures one server or every server of a cluster. The zero
// value is ready to use.
type EtcdConfig struct {
	// NoSync makes the server skip fsync. A killed process still loses
	// nothing, since the kernel has the data.
	NoSync bool

	// Dir is an existing folder in which the server makes a new folder for
	// its files; by default the system's folder for temporary files.
	Dir string

	// Args are put after this package's own flags. A flag given twice counts
	// with its last value.
	Args []string

	// Listen are URLs at which one server serves clients besides its own address, such as an
	// https:// one with the certificate that Args name.
	Listen []string

	// Network, if not nil, is where the members of a cluster run. By default
	// servers listen on 127.0.0.1.
	Network *networktest.Network

	// Log receives a copy of the server's output, which always goes to a file
	// in the server's folder. Writes are serialised within one server or
	// cluster. The writer must not block.
	Log io.Writer
}

func (c EtcdConfig) withDefaults() EtcdConfig {
	c.Log = share(c.Log)
	return c
}

// Etcd is one etcd server process. Its methods may be called from any
// goroutine; those that start or end the process exclude each other.
//
// Heartbeats and elections have etcd's own periods. The latter set the shortest
// life of a lease, 2 s: one that a client asks to be shorter lasts that long.
type Etcd struct{ *server }

// etcdBinary finds or builds the server, once per process.
var etcdBinary = sync.OnceValues(func() (string, error) {
	return buildServer("etcd", "go.etcd.io/etcd/server/v3")
})

// StartEtcd starts a server of its own and blocks until it serves. Where it was
// never built on this machine, it builds it first. The caller closes it.
func StartEtcd(cfg EtcdConfig) (*Etcd, error) {
	c, err := StartEtcdCluster(1, cfg)
	if err != nil {
		return nil, err
	}
	return c.Members[0], nil
}

// newEtcd prepares a member of a group without starting it. On success the
// server owns the ports: for clients and for the other members.
func newEtcd(cfg EtcdConfig, g *group, node string, at networktest.Site, ports []int) (*Etcd, error) {
	path, err := etcdBinary()
	if err != nil {
		return nil, err
	}
	s, err := newServer("etcd", process.Spec{Name: "etcd " + node, Path: path, Dir: cfg.Dir, Log: cfg.Log}, at, ports)
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
		// A member that has lost its data is replaced at once. Checked, that
		// is refused until the others have been connected for five seconds.
		"--strict-reconfig-check=false",
	}
	if cfg.NoSync {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, cfg.Args...)
}

func (s *server) etcdPeerURL() string { return "http://" + s.at.Addr(s.ports[1]) }

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
