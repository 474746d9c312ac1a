package ranked_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/strategy/ranked"
)

// With random ranks, and a new one for the leader at each return, a leader change wakes about ln N of N, and
// a candidate that joins wakes nobody. go test ./strategy/ranked -run TestWakesFewOfRandomRanks -v prints the
// figures of docs/fair-or-herd.md.
func TestWakesFewOfRandomRanks(t *testing.T) {
	const changes = 200
	sizes := []int{3, 50, 500}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, n := range sizes {
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
