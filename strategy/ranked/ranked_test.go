package ranked_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/strategy/ranked"
)

// A cluster is an election on a memory service.
type cluster struct {
	t       *testing.T
	service *memory.Service
	set     ranked.Strategy
	members map[string]*member
}

// A member is a candidate that runs.
type member struct {
	elector.Elector
	rank  *ranked.Rank
	term  atomic.Pointer[elector.Term] // the last one
	meter *meter.Backend
	stop  context.CancelFunc
	done  chan struct{}
}

func inCluster(t *testing.T, set ranked.Strategy, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, service: memory.New(memory.Options{}), set: set, members: map[string]*member{}}
		t.Cleanup(func() {
			for id := range c.members {
				c.leave(id)
			}
		})
		test(c)
	})
}

// join has a candidate run, which leads until it is asked to go.
func (c *cluster) join(id string, numbers ...int64) *member {
	c.t.Helper()
	m := c.enter(id, numbers...)
	synctest.Wait()
	return m
}

// enter is join, and does not wait.
func (c *cluster) enter(id string, numbers ...int64) *member {
	c.t.Helper()
	m := &member{rank: ranked.NewRank(numbers...), meter: meter.New(c.service, nil), done: make(chan struct{})}
	set := c.set
	set.Rank = m.rank
	e, err := elector.New(elector.Config{Backend: m.meter, Strategy: set, Election: "/e", ID: id, Value: []byte("value of " + id)})
	require.NoError(c.t, err)
	m.Elector = e
	ctx, cancel := context.WithCancel(c.t.Context())
	m.stop = cancel
	go func() {
		defer close(m.done)
		_ = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
			m.term.Store(t)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	c.members[id] = m
	return m
}

// leave has a candidate go at once.
func (c *cluster) leave(id string) {
	c.t.Helper()
	c.leaves(id)
	synctest.Wait()
}

// leaves is leave, and does not wait for what comes of it.
func (c *cluster) leaves(id string) {
	c.t.Helper()
	m := c.members[id]
	delete(c.members, id)
	m.stop()
	<-m.done
	require.NoError(c.t, m.Close(context.WithoutCancel(c.t.Context())))
}

// leads says who has to lead, "" for nobody.
func (c *cluster) leads(id string) {
	c.t.Helper()
	synctest.Wait()
	var got string
	if all := c.candidates(); len(all) > 0 && all[0].Leads {
		got = all[0].ID
	}
	require.Equal(c.t, id, got, "the leader")
}

func (c *cluster) candidates() []elector.Candidate {
	c.t.Helper()
	for _, m := range c.members {
		all, err := m.Candidates(c.t.Context())
		require.NoError(c.t, err)
		return all
	}
	return nil
}

// inLine says who has to be listed, in this order.
func (c *cluster) inLine(ids ...string) {
	c.t.Helper()
	synctest.Wait()
	var got []string
	for _, one := range c.candidates() {
		got = append(got, one.ID)
	}
	require.Equal(c.t, ids, got, "the candidates")
}

func TestBestLeads(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 1)
		c.join("b", 2)
		c.join("c", 5)
		c.join("d", 3)
		c.join("never", -1)
		c.leads("a") // who came first
		c.inLine("a", "c", "d", "b", "never")
		c.leave("a")
		c.leads("c")
		c.members["b"].rank.Set(4)
		c.inLine("c", "b", "d", "never")
		c.leave("c")
		c.leads("b")
		c.leave("b")
		c.leads("d")
		c.leave("d")
		c.leads("")
		c.members["never"].rank.Set(0)
		c.leads("never")
	})
}

// A leader's rank changes: others see the new one, and the value as it was.
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

func TestDesignated(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		require.ErrorIs(c.t, elector.Designate(c.t.Context(), c.service, c.set, "/e", elector.Designation{ID: "x"}), elector.ErrNoElection)
		c.join("a", 9)
		for i := range 6 {
			c.join(fmt.Sprint("b", i), int64(i))
		}
		require.NoError(c.t, elector.Designate(c.t.Context(), c.service, c.set, "/e", elector.Designation{ID: "b2", By: "anna", Why: "deploy"}))
		c.inLine("a", "b2", "b5", "b4", "b3", "b1", "b0")
		c.leave("a")
		c.leads("b2")
		c.leave("b2")
		c.leads("b5")
		c.join("b2", 0) // it is designated still
		c.leave("b5")
		c.leads("b2")
		require.NoError(c.t, elector.Designate(c.t.Context(), c.service, c.set, "/e", elector.Designation{ID: "b0"}))
		synctest.Wait()
		require.NoError(c.t, elector.Designate(c.t.Context(), c.service, c.set, "/e", elector.Designation{}))
		c.leave("b2")
		c.leads("b4")
	})
}

// A leader change wakes the best, and those who wait for it.
func TestWakesFew(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		const n = 40
		for i := range n {
			c.join(fmt.Sprint("c", i), 0)
		}
		before := map[string]meter.Counts{}
		for id, m := range c.members {
			before[id] = m.meter.Counts()
		}
		c.leave("c0")
		c.leads("c1")
		for id, m := range c.members {
			now := m.meter.Counts().Sub(before[id])
			switch id {
			case "c1", "c2":
				t.Logf("%s: %+v", id, now)
			default:
				assert.Zero(c.t, now.WakeUps, id)
			}
		}
	})
}
