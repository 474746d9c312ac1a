package zookeeper_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// A cut is a way to break the network between the members of an ensemble, so that the others elect
// while the old leader continues. One candidate leads on the old leader's side, another waits on the
// other side.
type cut struct {
	name     string
	ttl      time.Duration
	strategy strategy.Strategy

	// stay is how many of the others stay with the old leader. It is cut off from the rest.
	stay int

	// first returns the member that the leading candidate is connected to at first. everywhere is set
	// if that candidate may connect to any other.
	first      func(p *parts) int
	everywhere bool

	// make makes the cut.
	make func(p *parts) error
}

// parts is an ensemble that is about to be cut. Its members are identified by their hosts.
type parts struct {
	ensemble *servertest.Ensemble
	network  *networktest.Network
	leader   int
	stay     []int // followers that stay with it
	rest     []int // the others
}

// startParts starts an ensemble of n whose members give each other up after 2 s times the syncLimit.
func startParts(t *testing.T, n int, limits ...string) *parts {
	t.Helper()
	network := networktest.ForTest(t, n)
	return &parts{network: network, ensemble: servertest.EnsembleForTest(t, n, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, HeapMB: 128, Network: network, TickTime: 2 * time.Second, Extra: limits,
	})}
}

// whole waits until no cut is left, and finds the leader. That many of the others will stay with it.
func (p *parts) whole(t *testing.T, stay int) {
	t.Helper()
	require.NoError(t, p.ensemble.Start())
	leader := must.Get(p.ensemble.Leader())(t)
	p.leader, p.stay, p.rest = leader.Host(), nil, nil
	for _, m := range p.ensemble.Members {
		switch {
		case m == leader:
		case len(p.stay) < stay:
			p.stay = append(p.stay, m.Host())
		default:
			p.rest = append(p.rest, m.Host())
		}
	}
}

func onLeader(p *parts) int { return p.leader }
func onStay(p *parts) int   { return p.stay[0] }
func onRest(p *parts) int   { return p.rest[0] }

// silent drops all traffic between the two sides.
func silent(p *parts) error { return p.between(p.network.Cut) }

// between calls do for each pair of one of the rest and one on the old leader's side.
func (p *parts) between(do func(old, rest int) error) (err error) {
	for _, old := range append([]int{p.leader}, p.stay...) {
		for _, rest := range p.rest {
			err = errors.Join(err, do(old, rest))
		}
	}
	return err
}

// reset does the same, and resets the connections at the others only: the old leader notices nothing.
func reset(p *parts) error {
	return errors.Join(silent(p), p.between(func(old, rest int) error { return p.network.Reset(rest, old) }))
}

// restart is silent, and also kills and restarts the others.
func restart(p *parts) error {
	err := silent(p)
	for _, host := range p.rest {
		err = errors.Join(err, p.ensemble.Members[host].Kill())
	}
	for _, host := range p.rest {
		err = errors.Join(err, p.ensemble.Members[host].Launch())
	}
	return err
}

// oneWay drops what the leader sends to the others, and nothing that they send.
func oneWay(p *parts) (err error) {
	for _, host := range p.rest {
		err = errors.Join(err, p.network.Drop(p.leader, host))
	}
	return err
}

// TestPartitions checks that no cut between the members of an ensemble makes two terms valid at once.
// The servers' times are those of ZooKeeper's example configuration: a leader may continue for 10 s and
// more after it was left, which is longer than the sessions last.
func TestPartitions(t *testing.T) {
	const short = 4 * time.Second // the shortest that servers with such ticks grant
	for name, group := range map[string]struct {
		servers int
		cuts    []cut
	}{
		"3 servers, resets": {3, []cut{
			{name: "fair", ttl: short, first: onLeader, make: reset},
			{name: "unfair", ttl: short, strategy: unfair.Strategy{}, first: onLeader, make: reset},
			{name: "6s", ttl: 6 * time.Second, first: onLeader, make: reset},
		}},
		"3 servers, other": {3, []cut{
			{name: "all servers in the list", ttl: short, first: onRest, everywhere: true, make: reset},
			{name: "followers restarted", ttl: short, first: onLeader, make: restart},
			{name: "silent", ttl: short, first: onLeader, make: silent},
		}},
		"5 servers": {5, []cut{
			{name: "on a follower of the old leader", ttl: short, stay: 1, first: onStay, make: reset},
			{name: "one way, from the leader", ttl: short, first: onLeader, make: oneWay},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startParts(t, group.servers, "syncLimit=5", "initLimit=10")
			for _, c := range group.cuts {
				t.Run(c.name, func(t *testing.T) { c.try(t, p) })
			}
		})
	}
}

// try makes the cut, and watches both candidates until the second leads and the first does not, or
// until the old leader has certainly given up and the first still does.
func (c *cut) try(t *testing.T, p *parts) {
	p.whole(t, c.stay)
	leads, waits := c.candidates(t, p)
	for !leads.valid() { // the machine was too slow for a session
		leads, waits = c.candidates(t, p)
	}
	defer func() { require.NoError(t, p.network.Heal()) }() // for their ends
	began := time.Now()
	require.NoError(t, c.make(p))

	const givenUp = 20 * time.Second // the longest seen was 17 s
	var overlap, lastValid time.Duration
	for {
		// Ended terms stay ended. So if both checks pass, one after the other, both terms were valid at
		// the first check.
		at, won := time.Now(), waits.term.Load()
		valid := leads.valid()
		if valid {
			lastValid = at.Sub(began)
		}
		if valid && won != nil && won.Valid() {
			overlap = at.Sub(waits.elected)
		}
		if won != nil && !valid {
			t.Logf("the first term was valid until %v after the cut, the second from %v on: %v between them",
				lastValid, waits.elected.Sub(began), waits.elected.Sub(began)-lastValid)
			break
		}
		if c.everywhere && valid && at.Sub(began) > givenUp {
			t.Log("the first candidate has kept its term, by one of the others")
			break
		}
		require.Less(t, at.Sub(began), wait.Patience, "the first term is valid: %v; the second has begun: %v", valid, won != nil)
		time.Sleep(2 * time.Millisecond)
	}
	assert.Zero(t, overlap, "for so long two terms were valid")
}

// A contender is one candidate in a process of its own.
type contender struct {
	elector elector.Elector
	waits   chan struct{} // closed when it has entered and has not won

	term    atomic.Pointer[elector.Term]
	elected time.Time // set before term
}

func (x *contender) valid() bool { return x.term.Load().Valid() }

// candidates returns one that leads and one that waits.
func (c *cut) candidates(t *testing.T, p *parts) (leads, waits *contender) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	t.Cleanup(cancel)
	at := func(hosts ...int) (addrs []string) {
		for _, host := range hosts {
			addrs = append(addrs, p.ensemble.Addrs()[host])
		}
		return addrs
	}
	election, near, far := newRoot(), at(c.first(p)), at(p.rest...)
	for _, host := range slices.Concat([]int{p.leader}, p.stay, p.rest) {
		if c.everywhere && host != c.first(p) {
			near = append(near, at(host)...)
		}
	}
	leads, first := c.contender(t, election, "leads", near)
	first.Only(0)
	term := must.Get(leads.elector.Campaign(ctx))(t)
	leads.term.Store(term)
	first.Resume()
	waits, _ = c.contender(t, election, "waits", far)
	go func() {
		// One campaign recovers from the effects of the cut.
		term, err := waits.elector.Campaign(context.WithoutCancel(ctx))
		if err != nil {
			return // the test has ended, or finds that nobody is elected
		}
		waits.elected = time.Now()
		waits.term.Store(term)
	}()
	select {
	case <-waits.waits:
	case <-ctx.Done():
		require.NoError(t, ctx.Err())
	}
	return leads, waits
}

func (c *cut) contender(t *testing.T, election, id string, servers []string) (*contender, *zktest.Process) {
	t.Helper()
	process := zktest.NewProcess(t, servers, sessionTimeout(c.ttl))
	strategy := c.strategy
	if strategy == nil {
		strategy = fair.Strategy{}
	}
	x := &contender{waits: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(x.waits) })
	e, err := elector.New(elector.Config{
		Backend: process.Backend, Strategy: strategy, Election: election, ID: id,
		Hooks: elector.Hooks{Stage: func(e elector.StageEvent) {
			if e.Stage == elector.StageReady && !e.Completed {
				ready()
			}
		}},
	})
	require.NoError(t, err)
	x.elector = e
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = e.Close(ctx) // its servers may have no leader yet
	})
	return x, process
}
