package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/servertest"
)

// TestDeaths is a campaign on each service with candidates whose sessions are ended when they die, half of
// them by a companion, half by an agent, which are killed and frozen, too. No session of a living one is.
func TestDeaths(t *testing.T) {
	servertest.Long(t, "campaigns of faults")
	for _, c := range []trial{
		{backend: "etcd", seed: 1},
		{backend: "zookeeper", seed: 2},
		{backend: "consul", seed: 3},
	} {
		t.Run(c.backend, func(t *testing.T) {
			t.Parallel()
			c.servers, c.strategy, c.faults, c.length = 1, "fair", []string{ofCandidates, ofCompanions}, 2*short
			r := campaignForTest(t, c)
			assert.Empty(t, r.violations)
			assert.GreaterOrEqual(t, r.terms, 3)
			assert.NotZero(t, r.executed)
			for _, k := range kinds() {
				if k.ends {
					assert.Contains(t, r.faults, k.name)
				}
			}
		})
	}
}

// TestHasty holds that a campaign finds it when sessions of living candidates are ended.
func TestHasty(t *testing.T) {
	servertest.Long(t, "a campaign of faults")
	t.Parallel()
	r := campaignForTest(t, trial{backend: "etcd", servers: 1, strategy: "fair", faults: []string{ofCompanions}, seed: 1, length: 8 * time.Second, broken: brokenHasty})
	assert.True(t, slices.ContainsFunc(r.violations, func(v string) bool { return strings.HasPrefix(v, "session: ") }), "%q", r.violations)
}
