package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// On a machine that has taken three times as long as usual so far a stage needs a budget of
// three times its usual time. The first tier needs none.
func TestPace(t *testing.T) {
	first := stage{tier: testTier, usual: 2 * time.Minute}
	rest := stage{tier: restTier, usual: 4 * time.Minute}

	p := pace{budget: 18 * time.Minute}
	assert.True(t, p.allows(rest))
	p.took(first, 6*time.Minute)
	assert.True(t, p.allows(rest))
	p.took(first, 6*time.Minute)
	assert.False(t, p.allows(rest), "12 minutes of the 6 that are left")
	assert.True(t, p.allows(first))

	p = pace{budget: 4 * time.Minute}
	p.took(first, time.Minute)
	assert.False(t, p.allows(rest), "four minutes of three, on a quick machine, too")
}

// Each stage of the second tier has its usual time, without which a budget would mean nothing; and in
// as many turns as there are of them each comes first once.
func TestRestTakesTurns(t *testing.T) {
	packages := []string{"conformance", "conformance/explore", "internal/mutants", "backend/etcd"}
	first := make(map[string]int)
	n := len(plan(restTier, "", 0, packages))
	for turn := range n {
		all := plan(allTiers, "", turn, packages)
		tiers := make(map[tier]bool)
		for _, s := range all {
			assert.NotZero(t, s.usual, s.name)
			if s.tier == restTier && !tiers[restTier] {
				first[s.name]++
			}
			assert.False(t, s.tier == testTier && tiers[restTier], "%s comes late", s.name)
			tiers[s.tier] = true
		}
	}
	assert.Len(t, first, n)
}

// What a budget leaves out is named, and its tests are not taken for forgotten. Others are.
func TestLeftOut(t *testing.T) {
	var screen strings.Builder
	o := outcome{screen: &screen, file: io.Discard, leftOut: []stage{{name: "networks", packages: []string{"p"}, run: "^TestCut$"}}}
	o.miss(name{"p", "TestCut"}, true)
	o.miss(name{"p", "TestForgotten"}, true)
	o.complete()
	o.end(0, 0)
	assert.Contains(t, screen.String(), "left out for lack of time: networks\n")
	assert.Len(t, o.broken, 1)
	assert.Contains(t, screen.String(), "TestForgotten: no stage of plan.go tries it")
}
