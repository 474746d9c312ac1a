package ranked_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/strategy/ranked"
)

// Two candidates have the ID that an operator designates, as when a process runs twice. The better
// one leads next. The best of all tells that one, and not the other: otherwise all would wait for
// each other.
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

// One who is designated need not be the best to stay: neither one of a higher rank nor a second one
// of its ID asks it to go.
func TestDesignatedStays(t *testing.T) {
	inCluster(t, ranked.Strategy{Preempt: true}, func(c *cluster) {
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

// One who is designated before it comes leads when it does: at the next vacancy, or by asking.
func TestDesignatedComesLater(t *testing.T) {
	for _, preempt := range []bool{false, true} {
		inCluster(t, ranked.Strategy{Preempt: preempt}, func(c *cluster) {
			c.join("a", 5)
			c.join("b", 4)
			c.join("c", 3)
			c.designate("late")
			c.leads("a")
			c.join("late", 0)
			if !preempt {
				c.leads("a")
				c.leave("a")
			}
			c.pass(time.Minute)
			c.leads("late")
			c.leave("late")
			c.pass(time.Minute)
			if preempt {
				c.leads("a")
			} else {
				c.leads("b")
			}
		})
	}
}

// A designated candidate that may not lead is as one that does not stand.
func TestDesignatedNeverLeads(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		c.join("ill", -1)
		c.designate("ill")
		c.leave("a")
		c.leads("b")
		c.join("a", 5)
		c.ranks("ill", 0) // well again
		c.leave("b")
		c.leads("ill")
	})
}

// Whom it was that an operator has designated may change at any moment, and so may ranks: in the end
// the right one leads, and all the others wait.
func TestManyChoices(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		names := []string{"a", "b", "c", "d", "e"}
		for i, name := range names {
			c.join(name, int64(i))
		}
		for round := range 60 {
			one := names[round*7%5]
			c.designate(one)
			c.members[names[round*3%5]].rank.Set(int64(round * 11 % 13)) // which the list must not miss
			if round%4 == 0 {
				c.designate("")
				one = ""
			}
			require.Len(t, c.candidates(), 5)
			synctest.Wait()
			line := c.candidates()
			require.True(t, line[0].Leads)
			gone := line[0].ID
			c.leave(gone)
			c.leads(line[1].ID)
			if one != "" && one != gone {
				c.leads(one)
			}
			c.join(gone, int64(round%5))
			c.pass(time.Minute)
		}
	})
}
