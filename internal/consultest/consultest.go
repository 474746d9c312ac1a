package consultest

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// What one transaction may have: Consul's own limits, as the backend's errors name
// them. The bytes are those of a request's body, in which values are base64.
const (
	maxOps   = 128
	maxBytes = 512 << 10 / 4 * 3
)

// config lets the processes of a test, which all have one address, have as many
// connections as if each had its own.
var config = servertest.ConsulConfig{NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`}

// why are the reasons for what a Consul service cannot be made to do.
var why = map[string]string{
	"Kill":         "the process is the test's own",
	"StopMember":   "there is one agent only that processes connect to",
	"PauseMember":  "there is one agent only that processes connect to",
	"CutOffMember": "there is one agent only that processes connect to",
	"UseUp":        "indexes have 64 bits: there is no end to them",
}

// Servers are one Consul server, or a cluster.
type Servers struct {
	Name    string
	Members []*servertest.Consul // that processes connect to

	start   func() error
	network *networktest.Network // nil on the loopback
	whole   string               // why no member can be cut off there
	roots   atomic.Uint64
	waiting atomic.Int64 // blocking queries of all processes
}

// Single starts a server of its own for t.
func Single(t testing.TB) *Servers {
	t.Helper()
	server := servertest.ConsulForTest(t, config)
	members := []*servertest.Consul{server}
	return &Servers{Name: "consul", Members: members, start: server.Start}
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
	cfg := config
	cfg.Network = network
	cluster := servertest.ConsulClusterForTest(t, 3, cfg)
	return &Servers{
		Name: "consul, cluster of 3", Members: cluster.Members, start: cluster.Start,
		network: network, whole: whole,
	}
}

// Stop kills them all.
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

// Root returns a key that nobody used before.
func (s *Servers) Root() string {
	return fmt.Sprintf("/conformance/r%d-%d", time.Now().UnixNano(), s.roots.Add(1))
}

// NewProcess makes a process whose blocking queries are counted as watches.
func (s *Servers) NewProcess(t testing.TB, cfg consul.Config) *Process {
	t.Helper()
	p := NewProcess(t, s.Members, Options{Config: cfg})
	p.count(&s.waiting)
	return p
}

// Service makes services on the servers, each with a root of its own. cfg is the
// configuration of their processes.
func (s *Servers) Service(ttl time.Duration, cfg consul.Config) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			Name:     s.Name,
			Root:     s.Root(),
			TTL:      ttl,
			Client:   func(t testing.TB) *conformance.Client { return client(s.NewProcess(t, cfg)) },
			Delete:   func(key string) error { return DeleteAll(s.Members, key) },
			Put:      func(key string, value []byte) error { return PutAll(s.Members, key, value) },
			Stop:     s.Stop,
			Start:    s.Start,
			MaxOps:   maxOps,
			MaxBytes: maxBytes,
			Watches:  func() (int, error) { return int(s.waiting.Load()), nil },
			Stored:   func() (keys, bytes int, err error) { return Stored(s.Members) },
			Why:      maps.Clone(why),
		}
		if len(s.Members) > 1 {
			svc.Members = len(s.Members)
			svc.ClientAt = func(t testing.TB, member int) (*conformance.Client, func()) {
				p := s.NewProcess(t, cfg)
				p.Only(member)
				return client(p), p.Resume
			}
			svc.StopMember = func(i int) error { return s.Members[i].Kill() }
			svc.StartMember = func(i int) error { return s.Members[i].Start() }
			svc.PauseMember = func(i int) error { return s.Members[i].Pause() }
			svc.ResumeMember = func(i int) error { return s.back(i, s.Members[i].Resume()) }
			svc.Why["CutOffMember"] = s.whole
		}
		if s.network != nil {
			svc.CutOffMember = func(i int) error { return s.network.CutOff(s.Members[i].Host()) }
			svc.MendMember = func(i int) error { return s.back(i, s.network.Rejoin(s.Members[i].Host())) }
		}
		return svc
	}
}

// back waits until a member votes again, unless err says that it cannot. Autopilot has taken it out
// meanwhile; without another one the rest would have no quorum.
func (s *Servers) back(i int, err error) error {
	if err != nil {
		return err
	}
	return s.Members[i].WaitReady(wait.Patience)
}

func client(p *Process) *conformance.Client {
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
		Close:       p.Close,
	}
}
