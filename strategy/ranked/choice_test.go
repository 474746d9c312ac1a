package ranked_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy/ranked"
)

// Two candidates have the ID that an operator designates, as when a process runs twice. The better one leads
// next. The best of all tells that one, and not the other: otherwise all would wait for each other.
func TestTwoOfTheDesignatedID(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("leader", 9)
		c.join("best", 5)
		c.joinAs("x1", "x", 1)
		c.joinAs("x2", "x", 2)
		c.designate("x")
		c.inLine("leader", "x", "x", "best")
		c.leave("leader")
		c.led("leader", "x2")
		c.leave("x2")
		c.led("leader", "x2", "x1")
		c.leave("x1")
		c.leads("best")
	})
}

// The designated leader stays though it is not the best: neither a candidate of higher rank nor a second one
// of its ID asks it to go.
func TestDesignatedStays(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
		require.ErrorIs(t, election.Designate(c.t.Context(), c.service, c.set, "/e", election.Designation{ID: "x"}), elector.ErrNoElection)
		c.joinAs("x1", "x", 1)
		c.designate("x")
		c.join("best", 5)
		c.joinAs("x2", "x", 1)
		c.pass(time.Hour)
		c.led("x1")
		c.ranks("x2", 2) // now it is better, and designated as well
		c.pass(time.Hour)
		c.led("x1", "x2")
		c.designate("")
		c.pass(time.Hour)
		c.led("x1", "x2", "best")
	})
}

// A candidate that is designated before it comes asks the leader to go when it comes.
func TestDesignatedComesLater(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		c.designate("late")
		c.leads("a")
		c.join("late", 0)
		c.pass(time.Minute)
		c.leads("late")
		c.leave("late")
		c.pass(time.Minute)
		c.leads("a")
	})
}
