package ranked_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy/ranked"
)

// TestWhateverComes makes candidates come, go and change their ranks, and operators designate, several at the
// same time. When all is quiet somebody leads, if anybody may, and the next leader is the best of the
// candidates.
func TestWhateverComes(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			set := ranked.Strategy{ByID: random.IntN(3) == 0, Quorum: random.IntN(3), Preempt: random.IntN(3) == 0}
			inCluster(t, set, func(c *cluster) {
				c.join("c00", 0)
				came := 0
				for range 40 {
					for range 1 + random.IntN(4) {
						c.anything(random, &came)
					}
					settle()
					c.isRight(random.IntN(2) == 0)
				}
			})
		})
	}
}

// settle waits until all is quiet: a candidate that was asked to go pauses before it stands again.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// anything does one thing, and does not wait for its effects.
func (c *cluster) anything(random *rand.Rand, came *int) {
	c.t.Helper()
	ids := make([]string, 0, len(c.members))
	for id := range c.members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rank := func() int64 { return int64(random.IntN(5) - 1) }
	switch n := random.IntN(10); {
	case n < 4 && len(ids) < 9 || len(ids) == 0:
		*came++
		id := fmt.Sprintf("c%02d", *came)
		c.enter(id, id, rank())
	case n < 6:
		c.leaves(ids[random.IntN(len(ids))])
	case n < 9:
		c.members[ids[random.IntN(len(ids))]].rank.Set(rank())
	default:
		d := election.Designation{ID: ids[random.IntN(len(ids))]}
		if random.IntN(3) == 0 {
			d.ID = ""
		}
		require.NoError(c.t, election.Designate(c.t.Context(), c.service, c.set, "/e", d))
	}
}

// isRight checks who leads. If successor is set, it makes the leader go and checks who is next.
func (c *cluster) isRight(successor bool) {
	c.t.Helper()
	all := c.candidates()
	require.Len(c.t, all, len(c.members))
	eligible := 0
	for _, one := range all {
		if len(one.Rank) == 0 || one.Rank[0] >= 0 {
			eligible++
		}
	}
	leads := len(all) > 0 && all[0].Leads
	switch {
	case leads && all[0].Rank[0] < 0:
		c.t.Fatalf("a candidate leads that may not: %+v", all)
	case !leads && eligible > 0 && eligible >= c.set.Quorum:
		c.t.Fatalf("nobody leads: %+v", all)
	}
	if !successor || !leads || len(all) == 1 {
		return
	}
	c.leaves(all[0].ID)
	settle()
	now := c.candidates()
	next := all[1]
	for _, one := range all[2:] {
		require.False(c.t, one.Designated && one.Rank[0] >= 0, "the designated one is not next: %+v", all)
	}
	may := next.Rank[0] >= 0 && eligible-1 >= c.set.Quorum
	switch {
	case may && (len(now) == 0 || !now[0].Leads || now[0].ID != next.ID):
		c.t.Fatalf("%s was to lead next: %+v, and then %+v", next.ID, all, now)
	case !may && len(now) > 0 && now[0].Leads:
		c.t.Fatalf("%s leads: %+v, and then %+v", now[0].ID, all, now)
	}
}
