package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each combination is tried by one of the two tiers; and in three turns both try each strategy
// on each single server, the second for races.
func TestCombinations(t *testing.T) {
	var everywhere []combination
	for _, c := range places {
		for _, c.strategy = range []string{"fair", "kafka", "unfair", "parentwatch"} {
			everywhere = append(everywhere, c)
		}
	}
	tried := make(map[combination]bool)
	races := make(map[string]bool)
	for turn := range 3 {
		first, later := combinations("", turn)
		for _, c := range everywhere {
			name := c.String()
			raced := slices.Contains(raced("", turn), c)
			assert.True(t, slices.Contains(first, c) || slices.Contains(later, c) || raced, "%s in turn %d", name, turn)
			assert.False(t, slices.Contains(first, c) && slices.Contains(later, c), "%s in turn %d", name, turn)
			races[name] = races[name] || raced
			tried[c] = tried[c] || slices.Contains(first, c)
		}
	}
	for _, c := range everywhere {
		assert.True(t, tried[c] || !c.single(), c)
		assert.Equal(t, c.single(), races[c.String()], c)
	}
}

// What the first tier leaves out of a package that it tries is in the second.
func TestPlanLosesNothing(t *testing.T) {
	packages := []string{".", "conformance", "conformance/explore", "internal/mutants", "backend/etcd", "new"}
	run := make(map[string]int)
	for _, s := range plan(allTiers, "", 0, packages) {
		for _, p := range s.packages {
			run[p]++
		}
	}
	for _, p := range packages {
		assert.NotZero(t, run[p], p)
	}
	assert.Equal(t, len(plan(allTiers, "", 3, packages)), len(plan(testTier, "", 3, packages))+len(plan(restTier, "", 3, packages)))
}
