package ranked_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy/ranked"
)

// The stories of the systems that elect by rank, as their users would tell them.

// sessionTime is longer than a session of the memory service lives without a heartbeat.
const sessionTime = 15 * time.Second

// ZooKeeper's FastLeaderElection compares (epoch, zxid, server id), and needs a quorum.
func TestZooKeeper(t *testing.T) {
	inCluster(t, ranked.Strategy{Quorum: 3}, func(c *cluster) {
		const epoch = 1
		zxid := []int64{1: 70, 2: 90, 3: 80, 4: 90, 5: 60}
		start := func(id int64) { c.join(fmt.Sprint("server", id), epoch, zxid[id], id) }

		// The third completes the quorum. It is the best of the three by its zxid alone.
		zxid[3] = 95
		start(1)
		c.leads("")
		start(2)
		c.leads("")
		start(3)
		c.leads("server3")
		require.Empty(t, c.woken(func() { start(4); start(5) }), "who comes is nobody's business while one leads")
		c.leads("server3")

		// It crashes. Servers 2 and 4 have the highest zxid, and 4 has the higher id of the two. Server 5,
		// with the highest id of all, does not lead.
		woken := c.woken(func() {
			c.kill("server3")
			c.pass(sessionTime)
		})
		c.leads("server4")
		require.Contains(t, woken, "server4")
		require.NotContains(t, woken, "server1", "it waits for a better one, which still waits")

		// Another crash leaves three, a quorum. A third one leaves two, and nobody leads until one comes
		// back. By then its epoch is higher.
		c.kill("server4")
		c.pass(sessionTime)
		c.leads("server2")
		c.kill("server2")
		c.pass(sessionTime)
		c.leads("")
		c.pass(time.Hour)
		c.leads("")
		c.join("server3", epoch+1, 10, 3)
		c.leads("server3")
		c.led("server3", "server4", "server2", "server3")
	})
}

// In Elasticsearch's Zen discovery the node with the smallest id leads, once n/2+1 are there.
func TestElasticsearch(t *testing.T) {
	const n = 5
	inCluster(t, ranked.Strategy{ByID: true, Quorum: n/2 + 1}, func(c *cluster) {
		c.join("node4")
		c.join("node2")
		c.leads("")
		c.join("node5")
		c.leads("node2")
		c.join("node1")
		c.leads("node2") // a smaller id does not unseat a leader
		c.join("node3")
		c.inLine("node2", "node1", "node3", "node4", "node5")

		// A partition: the leader and node5 do not reach the service any more. They have no quorum, and node2
		// does not lead beyond its window. The other half has one: node1 leads.
		for _, name := range []string{"node2", "node5"} {
			c.members[name].process.Suspend()
		}
		c.pass(sessionTime)
		c.leads("node1")
		c.led("node2", "node1")
		require.Equal(t, map[string]int{"node1": 1}, c.whoActs())

		// Healed: they are candidates again, and nobody is unseated.
		for _, name := range []string{"node2", "node5"} {
			c.members[name].process.Resume()
		}
		c.pass(time.Minute)
		c.inLine("node1", "node2", "node3", "node4", "node5")

		// A half without a quorum that reaches the service elects nobody, either.
		for _, name := range []string{"node1", "node2", "node3"} {
			c.members[name].process.Suspend()
		}
		c.pass(time.Minute)
		c.leads("")
		require.Empty(t, c.whoActs())
		c.led("node2", "node1")
		c.members["node3"].process.Resume()
		c.pass(time.Minute)
		c.leads("node3")
	})
}

// In Kubernetes' coordinated election the oldest version leads, so that nothing is written that some cannot
// read yet, until all are newer. The rank falls as the version rises. It must not be the negated version:
// below zero a candidate never leads. So it counts down from a number that no version reaches.
func TestKubernetes(t *testing.T) {
	oldest := func(major, minor int64) []int64 { return []int64{1_000 - major, 1_000 - minor} }
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
		const was, is = 33, 34
		for i := range 3 {
			c.join(fmt.Sprint("old", i), oldest(1, was)...)
		}
		c.leads("old0")

		// The upgrade begins with an instance of the new version beside the others.
		c.join("new0", oldest(1, is)...)
		for i := range 3 {
			c.leave(fmt.Sprint("old", i))
			c.pass(time.Minute)
			if i < 2 {
				c.leads(fmt.Sprint("old", i+1))
			}
			c.join(fmt.Sprint("new", i+1), oldest(1, is)...)
		}
		c.leads("new0") // after the last old one went
		c.led("old0", "old1", "old2", "new0")

		// A rollback: the first instance of the old version asks for the lead at once.
		c.join("old3", oldest(1, was)...)
		c.pass(time.Minute)
		c.leads("old3")
		c.led("old0", "old1", "old2", "new0", "old3")
	})
}

// In Patroni the most advanced replica leads. One with the tag nofailover never does, nor one that lags by
// more than maximum_lag_on_failover. Its own agent checks that, as it knows the position of the leader: it
// sets the rank to -1 then.
func TestPatroni(t *testing.T) {
	const maximumLag = 100
	rank := func(leader, own int64) int64 {
		if leader-own > maximumLag {
			return -1
		}
		return own
	}
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("pg0", 1000)
		c.join("pg1", rank(1000, 990))
		c.join("pg2", rank(1000, 950))
		c.join("nofailover", -1)
		c.join("lags", rank(1000, 800))
		c.inLine("pg0", "pg1", "pg2", "nofailover", "lags")

		// The position moves on. pg2 overtakes pg1. Each change wakes only those that wait for that one.
		require.Empty(t, c.woken(func() { c.ranks("pg2", rank(1060, 1060)) }), "nobody waits for the last in line")
		c.ranks("pg1", rank(1060, 1000))
		c.inLine("pg0", "pg2", "pg1", "nofailover", "lags")
		c.kill("pg0")
		c.pass(sessionTime)
		c.leads("pg2")

		// A switchover to a name: designate it, and ask the leader to go.
		c.join("pg3", 2000)
		c.designate("pg1")
		c.leads("pg2")
		c.ask(election.Request{By: "anna", Why: "switchover"})
		c.leads("pg1")
		c.pass(time.Minute)
		c.designate("")
		c.leads("pg1")

		// All that may lead go. Nobody leads, though two stand. Then one has caught up.
		for _, name := range []string{"pg1", "pg2", "pg3"} {
			c.kill(name)
		}
		c.pass(sessionTime)
		c.leads("")
		require.Len(t, c.candidates(), 2)
		c.ranks("lags", rank(1060, 1059))
		c.leads("lags")
		c.led("pg0", "pg2", "pg1", "lags")
	})
}

// With a hold-off, leadership does not swing with ranks that do: a candidate must be ahead for all that time.
func TestHoldOff(t *testing.T) {
	const holdOff = 10 * time.Second
	inCluster(t, ranked.Strategy{Preempt: true, HoldOff: holdOff}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		for range 20 { // faster than the hold-off, one up and the other down
			c.ranks("a", 4)
			c.ranks("b", 5)
			c.pass(holdOff * 9 / 10)
			c.ranks("b", 4)
			c.ranks("a", 5)
			c.pass(time.Second)
		}
		c.led("a")

		// The leader's own changes do not restart the hold-off: it falls behind, in steps.
		c.ranks("a", 3)
		c.pass(holdOff / 2)
		c.ranks("a", 2)
		c.pass(holdOff/2 - time.Millisecond)
		c.led("a")
		c.pass(time.Second)
		c.led("a", "b")
		c.pass(time.Minute)

		// Another is the best just before the time is up. Its hold-off begins then.
		c.ranks("a", 5)
		c.pass(holdOff - time.Second)
		c.join("c", 6)
		c.ranks("a", 1)
		c.pass(holdOff - time.Second)
		c.led("a", "b")
		c.pass(2 * time.Second)
		c.led("a", "b", "c")
	})
}

// A replica that reports its progress wakes the one that waits for it, if there is one.
func TestProgressWakesFew(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		const n = 10
		for i := range n {
			c.join(fmt.Sprint("r", i), 1, int64(n-i))
		}
		c.leads("r0")
		for i := 1; i < n; i++ {
			woken := c.woken(func() { c.ranks(fmt.Sprint("r", i), 1, int64(n-i)+100) })
			require.LessOrEqual(t, len(woken), 2, "the one who has waited for it, and no herd: %v", woken)
		}
		c.leads("r0")
		require.Empty(t, c.woken(func() { c.ranks("r9", 1, 102) }), "nobody waits for the last")
		require.Equal(t, []string{"r0", "r1"}, c.woken(func() { c.ranks("r0", 1, 300) }), "the leader and the next in line watch its entry")
	})
}

// A switchover to a name is one request: the leader makes the candidate next, and goes.
func TestPatroniSwitchover(t *testing.T) {
	inCluster(t, ranked.Strategy{Quorum: 2}, func(c *cluster) {
		c.join("pg0", 1000)
		c.join("pg1", 990)
		c.join("pg2", 980)
		c.join("pg3", 970)
		c.join("nofailover", -1)
		c.ask(election.Request{By: "anna", Why: "switchover", To: "pg3"})
		c.leads("pg3")
		c.pass(time.Minute)
		c.led("pg0", "pg3") // it stays so
		c.inLine("pg3", "pg0", "pg1", "pg2", "nofailover")

		// A request for a name that does not stand is refused, and the leader stays.
		_, err := election.Ask(c.t.Context(), c.service, c.set, "/e", election.Request{To: "pg9"})
		require.ErrorIs(t, err, elector.ErrNoCandidate)
		c.leads("pg3")

		// The heir's rank may change meanwhile, and it may be the worst.
		c.ranks("pg2", 1)
		c.ask(election.Request{By: "anna", To: "pg2"})
		c.leads("pg2")
		c.kill("pg2")
		c.pass(sessionTime)
		c.leads("pg0") // the request is fulfilled: pg2's name means nothing any more
	})
}

// The heir leads before the designated candidate, once.
func TestHeirBeforeDesignated(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		for i := range 5 {
			c.join(fmt.Sprint("m", i), int64(5-i))
		}
		c.designate("m3")
		require.ErrorIs(t, c.members["m0"].term.Load().Transfer(c.t.Context(), "m4", works), errWorks)
		c.leads("m0")
		c.leave("m0")
		c.leads("m4")
		c.leave("m4")
		c.leads("m3")
	})
}
