package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func set(ids ...int) map[int]bool {
	s := make(map[int]bool)
	for _, id := range ids {
		s[id] = true
	}
	return s
}

func TestDecide(t *testing.T) {
	type state struct {
		leader int
		isr    []int
	}
	for _, c := range []struct {
		name    string
		from    state
		live    map[int]bool
		unclean bool
		to      state
		changed bool
	}{
		{"all is well", state{1, []int{1, 2, 3}}, set(1, 2, 3), false, state{1, []int{1, 2, 3}}, false},
		{"others come and go", state{1, []int{1, 2, 3}}, set(1, 2, 3, 7), false, state{1, []int{1, 2, 3}}, false},
		{"the leader dies", state{1, []int{1, 2, 3}}, set(2, 3), false, state{2, []int{2, 3}}, true},
		{"the first in the order of the replicas leads", state{3, []int{1, 2, 3}}, set(1, 2), false, state{1, []int{1, 2}}, true},
		{"a live replica out of the ISR does not lead", state{1, []int{1, 3}}, set(2, 3), false, state{3, []int{3}}, true},
		{"a follower dies", state{1, []int{1, 2, 3}}, set(1, 3), false, state{1, []int{1, 3}}, true},
		{"a replica comes back", state{3, []int{3}}, set(2, 3), false, state{3, []int{2, 3}}, true},
		{"one goes, then the other comes", state{1, []int{1, 2}}, set(1, 3), false, state{1, []int{1}}, true},
		{"the last of the ISR dies", state{3, []int{3}}, set(1, 2), false, state{offline, []int{3}}, true},
		{"all die at once", state{1, []int{1, 2, 3}}, set(), false, state{offline, []int{1, 2, 3}}, true},
		{"offline stays so", state{offline, []int{3}}, set(1, 2), false, state{offline, []int{3}}, false},
		{"the last of the ISR comes back", state{offline, []int{3}}, set(2, 3), false, state{3, []int{3}}, true},
		{"one of the last ISR comes back", state{offline, []int{1, 3}}, set(3), false, state{3, []int{3}}, true},
		{"unclean: the first that lives", state{3, []int{3}}, set(1, 2), true, state{1, []int{1}}, true},
		{"unclean: in-sync ones first", state{2, []int{2, 3}}, set(1, 3), true, state{3, []int{3}}, true},
		{"unclean: nobody lives", state{3, []int{3}}, set(7), true, state{offline, []int{3}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			replicas := []int{1, 2, 3}
			before := partition{Leader: c.from.leader, ISR: c.from.isr, LeaderEpoch: 4, Replicas: replicas, ControllerEpoch: 9}
			want := partition{Leader: c.to.leader, ISR: c.to.isr, LeaderEpoch: 4, Replicas: replicas, ControllerEpoch: 9}
			if c.changed {
				want.LeaderEpoch++
			}
			next, changed := decide(before, c.live, c.unclean)
			assert.Equal(t, want, next)
			assert.Equal(t, c.changed, changed)
		})
	}
}

func TestFirstDecision(t *testing.T) {
	next, changed := decide(fresh([]int{2, 3}), set(2, 3), false)
	assert.Equal(t, partition{Leader: 2, ISR: []int{2, 3}, Replicas: []int{2, 3}}, next)
	assert.True(t, changed)
	_, changed = decide(fresh([]int{2, 3}), set(1), false)
	assert.False(t, changed, "nobody to lead it: nothing to write yet")
}

// TestDecideAlways holds what must be so after any history of brokers that come and
// go, and of the allowance for unclean elections.
func TestDecideAlways(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(1, seed))
		brokers := 1 + random.IntN(6)
		replicas := random.Perm(brokers)[:1+random.IntN(brokers)]
		p := fresh(replicas)
		for range 30 {
			live := make(map[int]bool)
			for id := range brokers {
				if random.IntN(3) > 0 {
					live[id] = true
				}
			}
			unclean := random.IntN(4) == 0
			for rounds := 0; ; rounds++ {
				next, changed := decide(p, live, unclean)
				rule := broken(p, next, changed, live, unclean)
				if rule == "" && rounds > 3 {
					rule = "a few decisions settle it"
				}
				if rule != "" {
					t.Fatalf("seed %d: broken: %s: %+v -> %+v, live %v, unclean %v", seed, rule, p, next, live, unclean)
				}
				p = next
				if !changed {
					break
				}
			}
		}
	}
}

// broken returns a rule that a decision breaks, or "".
func broken(p, next partition, changed bool, live map[int]bool, unclean bool) string {
	isLive := func(id int) bool { return live[id] }
	inISR := func(id int) bool { return slices.Contains(next.ISR, id) }
	epoch := p.LeaderEpoch
	if changed {
		epoch++
	}
	clean := slices.Contains(p.ISR, next.Leader)
	online := next.Leader != offline
	for _, rule := range []struct {
		holds bool
		says  string
	}{
		{changed == !next.same(p), "changed says whether leader or ISR did"},
		{next.LeaderEpoch == epoch, "the leader epoch rises by one with each change, and stays else"},
		{slices.Equal(next.Replicas, p.Replicas), "the replicas stay"},
		{len(next.ISR) > 0, "the ISR is never empty"},
		{slices.Equal(keep(next.Replicas, inISR), next.ISR), "the ISR is of replicas, in their order"},
		{online || slices.Equal(next.ISR, p.ISR), "offline keeps the last ISR"},
		{online || len(keep(p.ISR, isLive)) == 0, "offline only if no in-sync replica lives"},
		{online || !unclean || len(keep(p.Replicas, isLive)) == 0, "offline in spite of unclean elections only if no replica lives"},
		{!online || live[next.Leader], "a leader lives"},
		{!online || inISR(next.Leader), "a leader is in the ISR"},
		{!online || len(keep(next.ISR, isLive)) == len(next.ISR), "who does not live is not in the ISR"},
		{!online || clean || unclean, "a leader was in the ISR before, unless unclean elections are allowed"},
		{!online || clean || len(next.ISR) == 1, "after an unclean election the ISR is the leader"},
		{changed || !online || slices.Equal(keep(next.Replicas, isLive), next.ISR), "in the end all live replicas are in the ISR"},
	} {
		if !rule.holds {
			return rule.says
		}
	}
	return ""
}

func TestAssign(t *testing.T) {
	a, ok := assign(topic{Partitions: 4, Replicas: 2}, set(5, 1, 3))
	assert.True(t, ok)
	assert.Equal(t, [][]int{{1, 3}, {3, 5}, {5, 1}, {1, 3}}, a.Replicas)
	_, ok = assign(topic{Partitions: 1, Replicas: 4}, set(1, 2, 3))
	assert.False(t, ok, "a replica per broker at most")
}

func TestSteps(t *testing.T) {
	type view = map[int]uint64
	for _, c := range []struct {
		name        string
		before, now view
		want        []map[int]bool
	}{
		{"the first look", nil, view{1: 10, 2: 11}, []map[int]bool{set(1, 2)}},
		{"one comes, one goes", view{1: 10, 2: 11}, view{1: 10, 3: 12}, []map[int]bool{set(1, 3)}},
		{"one has registered anew", view{1: 10, 2: 11}, view{1: 10, 2: 12, 3: 13}, []map[int]bool{set(1, 3), set(1, 2, 3)}},
	} {
		assert.Equal(t, c.want, steps(c.before, c.now), c.name)
	}
}
