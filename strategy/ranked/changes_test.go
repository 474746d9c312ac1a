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

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy/ranked"
)

// Twenty candidates' ranks rise every second, each above all others, as those of replicas do. Still, there is
// a leader soon.
func TestRanksChangeAllTheTime(t *testing.T) {
	const n = 20
	inFarCluster(t, 20*time.Millisecond, ranked.Strategy{}, func(c *cluster) {
		for i := range n {
			c.join(fmt.Sprint("c", i), int64(i))
			c.pass(time.Second)
		}
		going, stop := context.WithCancel(c.t.Context())
		defer stop()
		for i := 1; i < n; i++ {
			rank := c.members[fmt.Sprint("c", i)].rank
			go func() {
				for k := int64(1); going.Err() == nil; k++ {
					time.Sleep(time.Second)
					rank.Set(1000*k + int64(i))
				}
			}()
			time.Sleep(time.Second / n)
		}
		c.pass(10 * time.Second)
		c.leaves("c0")
		for began := time.Now(); len(c.whoActs()) == 0; time.Sleep(10 * time.Millisecond) {
			require.Less(t, time.Since(began), 8*time.Second, "nobody leads")
		}
		stop()
		c.pass(time.Minute)
	})
}

// A rank that changes at a vacancy waits, and counts if the vacancy lasts.
func TestRankWaitsAtAVacancy(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("leader", 9)
		c.join("a", 3)
		c.join("b", 2)
		defer c.members["a"].process.HoldWakeups()() // it does not hear that it is next
		c.leave("leader")
		c.ranks("b", 1) // b has not heard of the vacancy, either
		c.inLine("a", "b")
		c.ranks("b", 5)
		c.inLine("a", "b")
		c.pass(2 * time.Second)
		c.leads("b")
	})
}

// A follower asks the leader to go when it has been better for as long as HoldOff, even if another one is
// better still for a while.
func TestHoldOffOfTwoThatOvertake(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true, HoldOff: 10 * time.Second}, func(c *cluster) {
		c.join("old", 0)
		c.join("a", 100)
		c.join("b", 101)
		for i := range int64(20) {
			who := []string{"a", "b"}[i%2]
			c.ranks(who, 1000+10*i-15) // this does not overtake yet
			c.pass(time.Second)
			c.ranks(who, 1000+10*i)
			c.pass(time.Second)
		}
		require.Greater(t, len(c.terms), 1, "the old one leads on")
	})
}

// An heir does not ask the leader to go: the leader may take its time.
func TestHeirDoesNotAsk(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 1)
		require.ErrorIs(t, c.members["a"].term.Load().Transfer(c.t.Context(), "b", works), errWorks)
		c.pass(time.Hour)
		c.led("a")
		c.ranks("b", 9) // now it may ask, and says why
		c.led("a", "b")
		r, _ := c.members["a"].term.Load().Request()
		assert.Contains(t, r.Why, "ranks higher")
	})
}

// A leader that is asked to go comes back soon: without it there is no quorum.
func TestPreemptWithoutOneToSpare(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true, Quorum: 2}, func(c *cluster) {
		c.join("a", 2)
		c.join("b", 1)
		for i := range 40 {
			c.members[[]string{"b", "a"}[i%2]].rank.Set(int64(10 + i))
			synctest.Wait()
			for began := time.Now(); len(c.whoActs()) == 0; time.Sleep(10 * time.Millisecond) {
				require.Less(t, time.Since(began), 2*time.Second, "nobody leads")
			}
			c.pass(5 * time.Second)
		}
	})
}

// Somebody writes another rank into a waiting candidate's entry. It stands again with its own.
func TestForeignRank(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("leader", 9)
		c.join("a", 1)
		c.join("b", 2)
		for _, other := range c.candidates() {
			if other.ID == "a" {
				require.NoError(t, c.service.Put(other.Entry.Key, []byte(`{"v":1,"id":"a","rank":[9]}`)))
			}
		}
		c.pass(time.Second)
		c.join("n", 5)
		c.inLine("leader", "n", "b", "a")
		c.leave("leader")
		c.led("leader", "n")
	})
}

// The best must be better than each leader for as long as HoldOff: that begins again with a new leader, even
// if the best has not seen the seat vacant.
func TestHoldOffOfANewLeader(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true, HoldOff: 10 * time.Second}, func(c *cluster) {
		c.join("a", 2)
		c.join("b", 1)
		c.join("best", 9)
		c.pass(8 * time.Second)
		release := c.members["best"].process.HoldWakeups()
		c.ask(election.Request{To: "b"})
		c.led("a", "b")
		release()
		c.pass(9 * time.Second)
		c.led("a", "b")
		c.pass(2 * time.Second)
		c.led("a", "b", "best")
	})
}

// Nobody asks a leader to go while fewer stand than the quorum: there would be no leader until more come.
func TestPreemptWithoutQuorum(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true, Quorum: 3}, func(c *cluster) {
		c.join("a", 1)
		c.join("b", 1)
		c.join("c", 1)
		c.leave("b")
		c.leave("c")
		c.join("best", 9)
		c.pass(time.Minute)
		c.leads("a")
		c.join("b", 1)
		c.pass(time.Minute)
		c.led("a", "best")
	})
}

// A leader that writes again and again is asked less often than it writes.
func TestAskingALeaderThatWrites(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
		c.join("a", 1)
		const seconds, most = 10, 100
		var asked atomic.Int32
		best := c.enter("best", "best", 9)
		best.process.LoseReply(func(ops []backend.Op) bool {
			if ops[0].Kind == backend.OpUpdate && asked.Load() < seconds*most {
				asked.Add(1)
				assert.NoError(t, c.members["a"].term.Load().Proclaim(c.t.Context(), nil))
			}
			return false
		})
		c.pass(seconds * time.Second)
		assert.Positive(t, asked.Load())
		assert.Less(t, asked.Swap(seconds*most), int32(seconds*most))
		c.pass(time.Second)
		c.led("a", "best")
	})
}
