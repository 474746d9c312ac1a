package zktest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
)

// why are the reasons for what a ZooKeeper service cannot be made to do.
var why = map[string]string{
	"StopMember":   "there is one server only",
	"UseUp":        "it takes a patched snapshot, which is tried on one server",
	"PauseMember":  "there is one server only",
	"CutOffMember": "there is one server only",
	"MaxOps":       "a transaction is bounded by its bytes only",
	"HoldWakeups":  "events and answers come over one connection in one order: none can be held while others go on",
	"Kill":         "the process is the test's own",
	"DelayRequest": "requests go over one connection in one order: none overtakes another",
}

// Servers are one ZooKeeper server, or an ensemble.
type Servers struct {
	Name    string
	Members []*servertest.ZooKeeper

	start   func() error
	network *networktest.Network // nil on the loopback
	whole   string               // why no member can be cut off there
	roots   atomic.Uint64
}

// Single starts a server of its own for t.
func Single(t *testing.T) *Servers {
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	s := &Servers{Name: "zookeeper", Members: []*servertest.ZooKeeper{server}, start: server.Start}
	return s
}

// Ensemble starts an ensemble of three for t, on the loopback.
func Ensemble(t *testing.T) *Servers {
	return ensemble(t, nil, "the ensemble is on the loopback")
}

// EnsembleOnNetwork is Ensemble on a network of its own, if this process may have one.
func EnsembleOnNetwork(t *testing.T) *Servers {
	network, err := networktest.IfAny(t, 3)
	return ensemble(t, network, fmt.Sprint(err))
}

func ensemble(t *testing.T, network *networktest.Network, whole string) *Servers {
	ensemble := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Network: network})
	return &Servers{Name: "zookeeper, ensemble of 3", Members: ensemble.Members, start: ensemble.Start, network: network, whole: whole}
}

func (s *Servers) addrs() []string {
	var addrs []string
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

// operate does something as an operator, on a connection of its own: one that was
// there when a server came back may have been accepted too early, never be answered,
// and not be given up by the client library for a minute.
func (s *Servers) operate(key string, do func(*zk.Conn) error) error {
	conn, err := connect(s.addrs())
	if err != nil {
		return err
	}
	defer conn.Close()
	// What others have just written may not have got to this member.
	if _, err := conn.Sync(key); err != nil {
		return err
	}
	return do(conn)
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

func (s *Servers) watches() (int, error) {
	var sum int
	for _, m := range s.Members {
		n, err := m.Watches()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// stored counts nodes and bytes at the member that has most: others may be behind it.
func (s *Servers) stored() (keys, bytes int, err error) {
	for _, m := range s.Members {
		metrics, err := m.Metrics()
		if err != nil {
			return 0, 0, err
		}
		keys = max(keys, int(metrics["znode_count"]))
		bytes = max(bytes, int(metrics["approximate_data_size"]))
	}
	return keys, bytes, nil
}

// Root returns a key that nobody used before.
func (s *Servers) Root() string {
	return fmt.Sprintf("/conformance/r%d-%d", time.Now().UnixNano(), s.roots.Add(1))
}

// Service makes services on the servers, each with a root of its own.
func (s *Servers) Service(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		svc := &conformance.Service{
			Name:   s.Name,
			Root:   s.Root(),
			TTL:    ttl,
			Client: func(t testing.TB) *conformance.Client { return client(NewProcess(t, s.addrs(), nil)) },
			Delete: func(key string) error {
				return s.operate(key, func(conn *zk.Conn) error { return DeleteAll(conn, key) })
			},
			Put: func(key string, value []byte) error {
				return s.operate(key, func(conn *zk.Conn) error { return PutAll(conn, key, value) })
			},
			Stop:     s.Stop,
			Start:    s.Start,
			MaxBytes: zookeeper.DefaultMaxRequest,
			Watches:  s.watches,
			Stored:   s.stored,
			Why:      maps.Clone(why),
		}
		if len(s.Members) == 1 {
			svc.UseUp = func(dir string, left int) error {
				// An Enqueue makes two nodes: the entry, and one that tells the zxid.
				return s.Members[0].SetCounter(dir, math.MaxInt32-2*int32(left))
			}
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
	p := NewProcess(t, s.addrs(), nil)
	for i, proxy := range p.Proxies {
		proxy.Refuse(i != member)
	}
	return client(p), p.Resume
}

func client(p *Process) *conformance.Client {
	return &conformance.Client{
		Backend:     p.Backend,
		Suspend:     p.Suspend,
		Resume:      p.Resume,
		Expire:      p.Expire,
		LoseReply:   func(kind backend.OpKind) { p.LoseReply(MatchKind(kind)) },
		CutReply:    func(kind backend.OpKind) { p.CutReply(MatchKind(kind)) },
		SlowReplies: func(d time.Duration) { p.Each(func(x *proxytest.Proxy) { x.DelayToClient(d) }) },
		HoldRequests: func() (release func()) {
			p.Each((*proxytest.Proxy).StallToServer)
			return func() { p.Each((*proxytest.Proxy).Unstall) }
		},
		Throttle:    p.Throttle,
		Deny:        p.Deny,
		LoseRequest: func(kind backend.OpKind) { p.LoseRequest(MatchKind(kind)) },
	}
}
