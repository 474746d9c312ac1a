package ranked_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/ranked"
)

// A cluster is an election on a memory service.
type cluster struct {
	t       *testing.T
	service *memory.Service
	set     ranked.Strategy
	viewer  elector.Elector // observes, and never stands
	members map[string]*member
	dead    []*member

	mu     sync.Mutex
	acting map[string]int // running lead functions, by ID
	terms  []string       // who has led, in this order
}

// A member is a running candidate, in a process of its own.
type member struct {
	elector.Elector
	rank    *ranked.Rank
	term    atomic.Pointer[elector.Term] // the last one
	process *memory.Client
	meter   *meter.Backend
	stop    context.CancelFunc
	done    chan struct{}
}

func inCluster(t *testing.T, set ranked.Strategy, test func(c *cluster)) {
	t.Helper()
	inFarCluster(t, 0, set, test)
}

// inFarCluster is inCluster with a round trip to the service.
func inFarCluster(t *testing.T, roundTrip time.Duration, set ranked.Strategy, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var o memory.Options
		if roundTrip > 0 {
			o.Latency = func() time.Duration { return roundTrip / 2 }
		}
		c := &cluster{t: t, service: memory.New(o), set: set, members: map[string]*member{}, acting: map[string]int{}}
		var err error
		c.viewer, err = elector.New(elector.Config{Backend: c.service, Strategy: set, Election: "/e", ID: "viewer"})
		require.NoError(t, err)
		t.Cleanup(func() {
			for name, m := range c.members {
				m.process.Resume()
				c.leave(name)
			}
			for _, m := range c.dead {
				m.process.Resume()
				m.end(t)
			}
			require.NoError(t, c.viewer.Close(context.WithoutCancel(t.Context())))
		})
		test(c)
	})
}

// join runs a candidate, which leads until it is asked to go.
func (c *cluster) join(id string, numbers ...int64) *member {
	c.t.Helper()
	return c.joinAs(id, id, numbers...)
}

// joinAs is join for a member with the ID of another.
func (c *cluster) joinAs(name, id string, numbers ...int64) *member {
	c.t.Helper()
	m := c.enter(name, id, numbers...)
	synctest.Wait()
	return m
}

// enter is joinAs without the wait.
func (c *cluster) enter(name, id string, numbers ...int64) *member {
	c.t.Helper()
	m := &member{rank: ranked.NewRank(numbers...), process: c.service.Client(name), done: make(chan struct{})}
	m.meter = meter.New(m.process, nil)
	set := c.set
	set.Rank = m.rank
	e := must.Get(elector.New(elector.Config{Backend: m.meter, Strategy: set, Election: "/e", ID: id, Value: []byte("value of " + id)}))(c.t)
	m.Elector = e
	ctx, cancel := context.WithCancel(c.t.Context())
	m.stop = cancel
	go func() {
		defer close(m.done)
		_ = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
			m.term.Store(t)
			c.acts(name, 1)
			defer c.acts(name, -1)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	c.members[name] = m
	return m
}

// acts notes that a member begins or ceases to act as the leader, and that nobody else does.
func (c *cluster) acts(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.terms = append(c.terms, name)
	}
	if c.acting[name] += n; c.acting[name] == 0 {
		delete(c.acting, name)
	}
	assert.LessOrEqual(c.t, len(c.acting), 1, "leaders that act at once: %v", c.acting)
}

// ranks gives a member another rank.
func (c *cluster) ranks(name string, numbers ...int64) {
	c.members[name].rank.Set(numbers...)
	synctest.Wait()
}

// leave makes a candidate go at once.
func (c *cluster) leave(name string) {
	c.t.Helper()
	c.leaves(name)
	synctest.Wait()
}

// leaves is leave, and does not wait for its effects.
func (c *cluster) leaves(name string) {
	c.t.Helper()
	m := c.members[name]
	delete(c.members, name)
	m.end(c.t)
}

// kill ends a candidate without a goodbye: nobody hears from it again.
func (c *cluster) kill(name string) {
	c.t.Helper()
	m := c.members[name]
	delete(c.members, name)
	c.dead = append(c.dead, m)
	m.process.Suspend()
	m.stop()
	synctest.Wait()
}

func (m *member) end(t *testing.T) {
	m.stop()
	<-m.done
	require.NoError(t, m.Close(context.WithoutCancel(t.Context())))
}

func (c *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// leads requires that this member leads, or nobody for "".
func (c *cluster) leads(name string) {
	c.t.Helper()
	synctest.Wait()
	var got string
	if all := c.candidates(); len(all) > 0 && all[0].Leads {
		got = all[0].ID
	}
	require.Equal(c.t, name, got, "the leader")
}

func (c *cluster) candidates() []elector.Candidate {
	c.t.Helper()
	return must.Get(c.viewer.Candidates(c.t.Context()))(c.t)
}

// inLine requires that these candidates are listed, in this order.
func (c *cluster) inLine(ids ...string) {
	c.t.Helper()
	synctest.Wait()
	var got []string
	for _, one := range c.candidates() {
		got = append(got, one.ID)
	}
	require.Equal(c.t, ids, got, "the candidates")
}

// led requires that these have led so far, in this order.
func (c *cluster) led(names ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(c.t, names, c.terms, "the terms so far")
}

// whoActs returns whose lead functions run.
func (c *cluster) whoActs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.acting)
}

// woken returns the members that wake during a call, in the order of their names.
func (c *cluster) woken(meanwhile func()) []string {
	before := map[string]int{}
	for name, m := range c.members {
		before[name] = m.meter.Counts().WakeUps
	}
	meanwhile()
	synctest.Wait()
	var names []string
	for name, m := range c.members {
		if n, was := before[name]; was && m.meter.Counts().WakeUps > n {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// designate names the candidate that an operator prefers, "" for nobody.
func (c *cluster) designate(id string) {
	c.t.Helper()
	require.NoError(c.t, election.Designate(c.t.Context(), c.service, c.set, "/e", election.Designation{ID: id, By: "anna", Why: "deploy"}))
	synctest.Wait()
}

// ask asks the leader to go.
func (c *cluster) ask(r election.Request) {
	c.t.Helper()
	must.Get(election.Ask(c.t.Context(), c.service, c.set, "/e", r))(c.t)
	synctest.Wait()
}

// A leader's rank changes: others see the new rank, and the value unchanged.
func TestLeaderChangesItsRank(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		a := c.join("a", 1)
		c.join("b", 2)
		sees := func(rank int64, value string) {
			c.t.Helper()
			synctest.Wait()
			leader := c.candidates()[0]
			assert.Equal(c.t, []int64{rank}, leader.Rank)
			assert.Equal(c.t, value, string(leader.Value))
		}
		sees(1, "value of a")
		a.rank.Set(3)
		sees(3, "value of a")
		require.NoError(c.t, a.term.Load().Proclaim(c.t.Context(), []byte("new")))
		sees(3, "new")
		a.rank.Set(0)
		sees(0, "new")
		a.rank.Set(-1) // it may not lead any more
		c.leads("b")
		time.Sleep(time.Minute)
		c.inLine("b", "a")
	})
}
