// Package servicetest presents real servers to the conformance suites. It is the common part of packages
// zktest, etcdtest and consultest: the servers, broken as by an operator, and the links of client processes
// to them.
package servicetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
)

// Servers are one server of a service, or a cluster.
type Servers[S servertest.Member] struct {
	Name string
	*servertest.Cluster[S]

	network *networktest.Network // nil on the loopback
	whole   string               // why no member can be cut off
	roots   atomic.Uint64
	stops   int // how often Stop was called
}

// Single starts one server for t.
func Single[S servertest.Member](t testing.TB, name string, start Starter[S]) *Servers[S] {
	t.Helper()
	return &Servers[S]{Name: name, Cluster: start(1, nil)}
}

// A Starter starts n servers for a test, on network unless that is nil.
type Starter[S servertest.Member] func(n int, network *networktest.Network) *servertest.Cluster[S]

// Cluster starts a cluster of three for t, on the loopback.
func Cluster[S servertest.Member](t testing.TB, name string, start Starter[S]) *Servers[S] {
	t.Helper()
	return &Servers[S]{Name: name + ", cluster of 3", Cluster: start(3, nil), whole: "the cluster is on the loopback"}
}

// ClusterOnNetwork is Cluster on a separate network, if this process may have one.
func ClusterOnNetwork[S servertest.Member](t testing.TB, name string, start Starter[S]) *Servers[S] {
	t.Helper()
	network, err := networktest.IfAny(t, 3)
	return &Servers[S]{Name: name + ", cluster of 3", Cluster: start(3, network), network: network, whole: fmt.Sprint(err)}
}

// Stop kills all members, and every second time it asks them to end.
func (s *Servers[S]) Stop() error {
	end := S.Kill
	if s.stops++; s.stops%2 == 0 {
		end = S.Stop
	}
	var errs []error
	for _, m := range s.Members {
		errs = append(errs, end(m))
	}
	return errors.Join(errs...)
}

// Start brings back the members that are down or cut off.
func (s *Servers[S]) Start() error {
	if s.network != nil {
		if err := s.network.Heal(); err != nil {
			return err
		}
	}
	return s.Cluster.Start()
}

// Root returns a key that nobody has used before.
func (s *Servers[S]) Root() string {
	return fmt.Sprintf("/conformance/r%d-%d", time.Now().UnixNano(), s.roots.Add(1))
}

// A Process is one client process.
type Process interface {
	Conformance() *conformance.Client
	Only(server int)
	Resume()
}

// Service completes a service with a new root and all that does not depend on the kind of servers. back,
// unless it is nil, waits until a member that was away takes part again.
func Service[S servertest.Member, P Process](s *Servers[S], svc *conformance.Service, process func(testing.TB) P, back func(S) error) *conformance.Service {
	svc.Name, svc.Root, svc.Stop, svc.Start = s.Name, s.Root(), s.Stop, s.Start
	svc.Client = func(t testing.TB) *conformance.Client { return process(t).Conformance() }
	svc.Why["Kill"] = "the process is the test's own"
	if len(s.Members) == 1 {
		for _, fault := range []string{"StopMember", "PauseMember", "CutOffMember"} {
			svc.Why[fault] = "there is one server only"
		}
		return svc
	}
	if back == nil {
		back = func(S) error { return nil }
	}
	svc.Members = len(s.Members)
	svc.ClientAt = func(t testing.TB, member int) (c *conformance.Client, free func()) {
		p := process(t)
		p.Only(member)
		return p.Conformance(), p.Resume
	}
	svc.StopMember = func(i int) error { return s.Members[i].Kill() }
	svc.StartMember = func(i int) error { return s.Members[i].Start() }
	svc.PauseMember = func(i int) error { return s.Members[i].Pause() }
	svc.ResumeMember = func(i int) error {
		if err := s.Members[i].Resume(); err != nil {
			return err
		}
		return back(s.Members[i])
	}
	if s.network == nil {
		svc.Why["CutOffMember"] = s.whole
		return svc
	}
	svc.CutOffMember = func(i int) error { return s.network.CutOff(s.Members[i].Host()) }
	svc.MendMember = func(i int) error {
		if err := s.network.Rejoin(s.Members[i].Host()); err != nil {
			return err
		}
		return back(s.Members[i])
	}
	return svc
}
