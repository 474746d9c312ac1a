package ranked_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

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
	m := &member{rank: ranked.NewRank(numbers...), meter: meter.New(c.service, nil), done: make(chan struct{})}
	set := c.set
	set.Rank = m.rank
	e, err := elector.New(elector.Config{Backend: m.meter, Strategy: set, Election: "/e", ID: id})
	require.NoError(c.t, err)
	m.Elector = e
	ctx, cancel := context.WithCancel(c.t.Context())
	m.stop = cancel
	go func() {
		defer close(m.done)
		_ = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	c.members[id] = m
	synctest.Wait()
	return m
}

// leave has a candidate go at once.
func (c *cluster) leave(id string) {
	c.t.Helper()
	m := c.members[id]
	delete(c.members, id)
	m.stop()
	<-m.done
	require.NoError(c.t, m.Close(context.WithoutCancel(c.t.Context())))
	synctest.Wait()
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

func TestDesignated(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		require.ErrorIs(t, elector.Designate(t.Context(), c.service, c.set, "/e", elector.Designation{ID: "x"}), elector.ErrNoElection)
		c.join("a", 9)
		for i := range 6 {
			c.join(fmt.Sprint("b", i), int64(i))
		}
		require.NoError(t, elector.Designate(t.Context(), c.service, c.set, "/e", elector.Designation{ID: "b2", By: "anna", Why: "deploy"}))
		c.inLine("a", "b2", "b5", "b4", "b3", "b1", "b0")
		c.leave("a")
		c.leads("b2")
		c.leave("b2")
		c.leads("b5")
		c.join("b2", 0) // it is designated still
		c.leave("b5")
		c.leads("b2")
		require.NoError(t, elector.Designate(t.Context(), c.service, c.set, "/e", elector.Designation{ID: "b0"}))
		synctest.Wait()
		require.NoError(t, elector.Designate(t.Context(), c.service, c.set, "/e", elector.Designation{}))
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
				assert.Zero(t, now.WakeUps, id)
			}
		}
	})
}

// With random ranks, the leader's own new at each return, a leader change wakes some ln N of N, and
// a candidate that joins nobody. go test ./strategy/ranked -run TestWakesFewOfRandomRanks -v prints
// the table of docs/fair-or-herd.md.
func TestWakesFewOfRandomRanks(t *testing.T) {
	const changes = 200
	for _, n := range []int{3, 50, 500} {
		inCluster(t, ranked.Strategy{}, func(c *cluster) {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range n {
				c.join(fmt.Sprint("c", i), random.Int64())
			}
			var woken, reads []int
			joined := 0
			counts := func() (sum meter.Counts) {
				for _, m := range c.members {
					sum = sum.Add(m.meter.Counts())
				}
				return sum
			}
			for i := range changes {
				leader := c.candidates()[0].ID
				own := c.members[leader].meter.Counts()
				before := counts()
				c.leave(leader)
				after := counts().Add(own)
				woken = append(woken, after.Sub(before).WakeUps)
				reads = append(reads, after.Sub(before).Gets)
				c.join(fmt.Sprint("c", n+i), random.Int64())
				joined += counts().Add(own).Sub(after).WakeUps
			}
			harmonic := 0.0
			for i := range n {
				harmonic += 1 / float64(i+1)
			}
			mean := func(all []int) float64 {
				sum := 0
				for _, x := range all {
					sum += x
				}
				return float64(sum) / float64(len(all))
			}
			t.Logf("N = %d: woken %.1f in the mean, %d at most; H_N = %.1f; %.0f reads in the mean, %d at most", n, mean(woken), slices.Max(woken), harmonic, mean(reads), slices.Max(reads))
			assert.Zero(t, joined, "woken by who joins")
			assert.InDelta(t, harmonic, mean(woken), harmonic/2)
		})
	}
}
