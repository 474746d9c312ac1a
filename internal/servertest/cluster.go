package servertest

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/wait"
)

// closable is the part of a server that tests need when they end.
type closable interface {
	Name() string
	Addr() string
	LogTail(n int64) string
	Close() error
}

// Member is a server of any kind: a [ZooKeeper], an [Etcd] or a [Consul]. [Server] documents the methods.
type Member interface {
	closable
	Host() int
	Running() bool
	Paused() bool
	Start() error
	Launch() error
	WaitReady(timeout time.Duration) error
	Kill() error
	Stop() error
	Pause() error
	Resume() error
	Wipe() error

	// leads returns the term in which the server believes to lead, or 0 if it does not. Terms grow.
	leads() (uint64, error)
}

// Cluster is a group of servers that replicate each other, or one server alone.
type Cluster[S Member] struct {
	// Members are the servers. The slice never changes; members that are down
	// stay in it.
	Members []S
}

// startCluster makes and starts n servers, each with a site and portsEach ports of its own.
func startCluster[S Member](on *networktest.Network, n, portsEach int, make func(i int, sites []networktest.Site, ports [][]int) (S, error)) (*Cluster[S], error) {
	if n < 1 {
		return nil, fmt.Errorf("servertest: a cluster of %d servers", n)
	}
	sites, err := on.Take(n)
	if err != nil {
		return nil, err
	}
	all, err := loopback.Ports(n * portsEach)
	if err != nil {
		return nil, err
	}
	var ports [][]int
	for i := range n {
		ports = append(ports, all[i*portsEach:(i+1)*portsEach])
	}
	c := new(Cluster[S])
	for i := range n {
		s, err := make(i, sites, ports)
		if err != nil {
			loopback.Release(all[i*portsEach:]...)
			return nil, errors.Join(err, c.Close())
		}
		c.Members = append(c.Members, s)
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// alone returns the only server of a cluster that was started.
func alone[S Member](c *Cluster[S], err error) (s S, _ error) {
	if err != nil {
		return s, err
	}
	return c.Members[0], nil
}

// Addrs returns the client addresses of all members, including those that are down.
func (c *Cluster[S]) Addrs() []string {
	addrs := make([]string, len(c.Members))
	for i, s := range c.Members {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Start starts all members that are not running and blocks until every member
// serves and one leads. Resume paused members first.
func (c *Cluster[S]) Start() error {
	// In parallel: a member that has lost its data may need the others before it can be launched.
	if err := c.each(func(s S) error {
		if s.Running() {
			return nil
		}
		return s.Launch()
	}); err != nil {
		return err
	}
	if err := c.each(func(s S) error { return s.WaitReady(wait.Patience) }); err != nil {
		return err
	}
	_, err := c.WaitLeader(wait.Patience)
	return err
}

// Leader returns the member that leads now, or an error wrapping ErrNotServing. It does not ask members
// that are down or paused. After a Resume two members may believe that they lead; Leader returns the one
// with the later term.
func (c *Cluster[S]) Leader() (S, error) {
	terms, errs := make([]uint64, len(c.Members)), make([]error, len(c.Members))
	c.survey(func(i int, s S) {
		term, err := s.leads()
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", s.Name(), err)
			return
		}
		terms[i] = term
	})
	var leader S
	var latest uint64
	for i, term := range terms {
		if term > latest {
			leader, latest = c.Members[i], term
		}
	}
	if latest == 0 {
		return leader, fmt.Errorf("servertest: no leader: %w: %w", ErrNotServing, cmp.Or(errors.Join(errs...), errors.New("none says that it leads")))
	}
	return leader, nil
}

// WaitLeader blocks until there is a leader and returns it.
func (c *Cluster[S]) WaitLeader(timeout time.Duration) (S, error) {
	deadline := time.Now().Add(timeout)
	for {
		leader, err := c.Leader()
		if err == nil {
			return leader, nil
		}
		if time.Now().After(deadline) {
			return leader, fmt.Errorf("after %v: %w", timeout, err)
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// Followers returns the members that serve now and do not lead.
func (c *Cluster[S]) Followers() []S {
	follows := make([]bool, len(c.Members))
	c.survey(func(i int, s S) {
		term, err := s.leads()
		follows[i] = term == 0 && err == nil
	})
	var followers []S
	for i, s := range c.Members {
		if follows[i] {
			followers = append(followers, s)
		}
	}
	return followers
}

// Close closes all members and blocks until they are gone.
func (c *Cluster[S]) Close() error {
	return c.each(func(s S) error { return s.Close() })
}

// survey calls ask for all members that can answer, in parallel, and waits.
func (c *Cluster[S]) survey(ask func(i int, s S)) {
	var wg sync.WaitGroup
	for i, s := range c.Members {
		if s.Running() && !s.Paused() {
			wg.Go(func() { ask(i, s) })
		}
	}
	wg.Wait()
}

// each calls do for all members in parallel, and waits.
func (c *Cluster[S]) each(do func(S) error) error {
	errs := make([]error, len(c.Members))
	var wg sync.WaitGroup
	for i, s := range c.Members {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
