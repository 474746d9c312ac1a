package etcdtest

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
)

// why are the reasons for what an etcd service cannot be made to do.
var why = map[string]string{
	"Kill":         "the process is the test's own",
	"StopMember":   "there is one server only",
	"PauseMember":  "there is one server only",
	"CutOffMember": "there is one server only",
	"UseUp":        "revisions have 63 bits: there is no end to them",
}

// Servers are one etcd server, or a cluster.
type Servers struct {
	Name    string
	Members []*servertest.Etcd

	// WaitLeader blocks until a member leads, and returns it.
	WaitLeader func(timeout time.Duration) (*servertest.Etcd, error)

	start   func() error
	network *networktest.Network // nil on the loopback
	whole   string               // why no member can be cut off there
	roots   atomic.Uint64
}

// Single starts a server of its own for t.
func Single(t testing.TB, args ...string) *Servers {
	t.Helper()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: args})
	return &Servers{Name: "etcd", Members: []*servertest.Etcd{server}, start: server.Start}
}

// Cluster starts a cluster of three for t, on the loopback.
func Cluster(t testing.TB) *Servers {
	t.Helper()
	return cluster(t, nil, "the cluster is on the loopback")
}

// ClusterOnNetwork is Cluster on a network of its own, if this process may have one.
func ClusterOnNetwork(t testing.TB) *Servers {
	t.Helper()
	network, err := networktest.IfAny(t, 3)
	return cluster(t, network, fmt.Sprint(err))
}

func cluster(t testing.TB, network *networktest.Network, whole string) *Servers {
	t.Helper()
	cluster := servertest.EtcdClusterForTest(t, 3, servertest.EtcdConfig{NoSync: true, Network: network})
	return &Servers{
		Name: "etcd, cluster of 3", Members: cluster.Members, start: cluster.Start, WaitLeader: cluster.WaitLeader,
		network: network, whole: whole,
	}
}

// Addrs are the clients' addresses of all members.
func (s *Servers) Addrs() []string {
	var addrs []string
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

// Stop kills all members.
func (s *Servers) Stop() error {
	var errs []error
	for _, m := range s.Members {
		errs = append(errs, m.Kill())
	}
	return errors.Join(errs...)
}

// Start brings back what is down, or cut off.
func (s *Servers) Start() error {
	if s.network != nil {
		if err := s.network.Heal(); err != nil {
			return err
		}
	}
	return s.start()
}

// Watches counts the watches that the members have.
func (s *Servers) Watches() (int, error) {
	var sum int
	for _, m := range s.Members {
		n, err := Metric(m, "etcd_debugging_mvcc_watcher_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Metric reads one of a member's metrics. The name has its labels, as the member says them.
func Metric(m *servertest.Etcd, name string) (int, error) {
	client := http.Client{Timeout: oneTry, Transport: &http.Transport{}} // without a proxy
	defer client.CloseIdleConnections()
	answer, err := client.Get(m.URL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no metric %s", m.URL(), name), lines.Err())
}

// Root returns a key that nobody used before.
func (s *Servers) Root() string {
	return fmt.Sprintf("/conformance/r%d-%d", time.Now().UnixNano(), s.roots.Add(1))
}

// Service makes services on the servers, each with a root of its own.
func (s *Servers) Service(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			Name:     s.Name,
			Root:     s.Root(),
			TTL:      ttl,
			Client:   func(t testing.TB) *conformance.Client { return NewProcess(t, s.Addrs(), nil).Conformance() },
			Delete:   func(key string) error { return DeleteAll(s.Addrs(), key) },
			Put:      func(key string, value []byte) error { return PutAll(s.Addrs(), key, value) },
			Stop:     s.Stop,
			Start:    s.Start,
			MaxOps:   etcd.DefaultMaxOps,
			MaxBytes: etcd.DefaultMaxRequest,
			Watches:  s.Watches,
			Stored:   func() (keys, bytes int, err error) { return Stored(s.Addrs()) },
			Why:      maps.Clone(why),
		}
		if len(s.Members) > 1 {
			svc.Members, svc.ClientAt = len(s.Members), s.clientAt
			svc.StopMember = func(i int) error { return s.Members[i].Kill() }
			svc.StartMember = func(i int) error { return s.Members[i].Start() }
			svc.PauseMember = func(i int) error { return s.Members[i].Pause() }
			svc.ResumeMember = func(i int) error { return s.Members[i].Resume() }
			svc.Why["CutOffMember"] = s.whole
		}
		if s.network != nil {
			svc.CutOffMember = func(i int) error { return s.network.CutOff(s.Members[i].Host()) }
			svc.MendMember = func(i int) error { return s.network.Rejoin(s.Members[i].Host()) }
		}
		return svc
	}
}

func (s *Servers) clientAt(t testing.TB, member int) (c *conformance.Client, free func()) {
	p := NewProcess(t, s.Addrs(), nil)
	for i, proxy := range p.Proxies {
		proxy.Refuse(i != member)
	}
	return p.Conformance(), p.Resume
}

// Conformance is the process as the suites see it.
func (p *Process) Conformance() *conformance.Client {
	return &conformance.Client{
		Backend:     p.Backend,
		Suspend:     p.Suspend,
		Resume:      p.Resume,
		Expire:      p.Expire,
		LoseReply:   func(kind backend.OpKind) { p.LoseReply(MatchKind(kind)) },
		CutReply:    func(kind backend.OpKind) { p.CutReply(MatchKind(kind)) },
		Throttle:    p.Throttle,
		Deny:        p.Deny,
		SlowReplies: func(d time.Duration) { p.Each(func(x *proxytest.Proxy) { x.DelayToClient(d) }) },
		HoldRequests: func() (release func()) {
			p.Each((*proxytest.Proxy).StallToServer)
			return func() { p.Each((*proxytest.Proxy).Unstall) }
		},
		LoseRequest: func(kind backend.OpKind) { p.LoseRequest(MatchKind(kind)) },
		DelayRequest: func(kind backend.OpKind, d time.Duration) (sent func() bool) {
			return p.DelayRequest(MatchKind(kind), d)
		},
		HoldWakeups: p.HoldWakeups,
		Close:       p.close,
	}
}
