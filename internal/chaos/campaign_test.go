package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/strategy/catalog"
)

// TestMain makes this binary a candidate where it is started as one.
func TestMain(m *testing.M) {
	candidateOnly()
	os.Exit(m.Run())
}

// short is how long the campaigns of the tests are planned to last, and longer those of
// faults between servers, of which each takes longer.
const (
	short  = 24 * time.Second
	longer = 32 * time.Second
)

// TestSteppedCandidate builds the candidate whose clock can be stepped.
func TestSteppedCandidate(t *testing.T) {
	servertest.Long(t, "a build of the standard library")
	program := must.Get(buildStepped(t.Context(), t.TempDir()))(t)
	about, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).CombinedOutput()
	require.NoError(t, err, string(about))
	assert.Contains(t, string(about), "-tags="+clockTag)
}

// onProxies are the groups of faults that take no network of the servers'.
var onProxies = []string{ofCandidates, ofServers}

// TestCampaigns is a short campaign on each service, with one server and with three, and
// one of faults between servers. In all of them together each kind of fault occurs, and each
// strategy but parentwatch.
func TestCampaigns(t *testing.T) {
	servertest.Long(t, "campaigns of faults")
	var mu sync.Mutex
	met := map[string]int{}
	tried := map[string]bool{}
	skipped := false
	between := []string{ofMembers}
	t.Run("all", func(t *testing.T) {
		for _, c := range []trial{
			{backend: "consul", servers: 3, strategy: "unfair", seed: 8},
			{backend: "zookeeper", servers: 3, strategy: "kafka", seed: 35},
			{backend: "etcd", servers: 3, strategy: "fair", seed: 44},
			{backend: "zookeeper", servers: 5, strategy: "fair", faults: between, seed: 96},
			{backend: "etcd", servers: 5, strategy: "unfair", faults: between, seed: 87},
			{backend: "consul", servers: 3, strategy: "fair", faults: between, seed: 19},
			{backend: "consul", servers: 1, strategy: "kafka", seed: 5},
			{backend: "zookeeper", servers: 1, strategy: "fair", seed: 37},
			{backend: "etcd", servers: 1, strategy: "unfair", seed: 3},
			{backend: "etcd", servers: 1, strategy: "ranked", seed: 4},
		} {
			tried[c.strategy] = true
			t.Run(fmt.Sprintf("%s-%d-%s", c.backend, c.servers, cmp.Or(strings.Join(c.faults, ""), c.strategy)), func(t *testing.T) {
				t.Parallel()
				c.length = short
				if c.faults == nil {
					c.faults = onProxies
				} else {
					c.length = longer
					defer func() {
						mu.Lock()
						defer mu.Unlock()
						skipped = skipped || t.Skipped()
					}()
					networktest.ForTest(t, 1)
				}
				if c.backend == "zookeeper" && c.servers == 1 {
					var err error
					c.program, err = buildStepped(t.Context(), t.TempDir())
					require.NoError(t, err)
				}
				r := campaignForTest(t, c)
				assert.Empty(t, r.violations)
				if c.length == longer {
					assert.Greater(t, r.commits, 20) // of leaders that are quiet mostly
				} else {
					assert.Greater(t, r.commits, 50)
				}
				assert.GreaterOrEqual(t, r.terms, 3)
				mu.Lock()
				defer mu.Unlock()
				for _, kind := range r.faults {
					met[kind]++
				}
			})
		}
	})
	for _, item := range catalog.All() {
		toCompareWith := item.Ordered && item.Herd
		assert.True(t, tried[item.Strategy.Name()] || toCompareWith, "no campaign tries the strategy %s: add one", item.Strategy.Name())
	}
	for _, k := range kinds() {
		if skipped && k.group == ofMembers || k.group == ofCompanions { // for the latter see TestDeaths
			continue
		}
		assert.NotZero(t, met[k.name], k.name)
	}
}

// few keeps what runs at the same time to what a small machine can do in time.
var few = make(chan struct{}, 4)

// campaignForTest does a campaign, and keeps what it has recorded if the test fails.
func campaignForTest(t *testing.T, c trial) *result {
	t.Helper()
	few <- struct{}{}
	defer func() { <-few }()
	dir := must.Get(os.MkdirTemp("", "chaos-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("all that was recorded is in %s", dir)
			return
		}
		assert.NoError(t, os.RemoveAll(dir))
	})
	r := must.Get(c.run(t.Context(), dir, testLog{t}))(t)
	var b strings.Builder
	r.print(&b)
	t.Log(b.String())
	return r
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) { l.t.Logf("%s", p); return len(p), nil }

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
				if k.group == ofCompanions {
					assert.Contains(t, r.faults, k.name)
				}
			}
		})
	}
}

// TestBroken has candidates that break a promise, or sessions of living candidates that are ended, and holds
// that a campaign finds it.
func TestBroken(t *testing.T) {
	servertest.Long(t, "campaigns of faults")
	for _, c := range []struct {
		broken, check string
		faults        []string
	}{
		{brokenLiar, "overlap: ", onProxies},
		{brokenUnarmed, "end: ", onProxies},
		{brokenHasty, "session: ", []string{ofCompanions}},
	} {
		t.Run(c.broken, func(t *testing.T) {
			t.Parallel()
			r := campaignForTest(t, trial{backend: "etcd", servers: 1, strategy: "fair", faults: c.faults, seed: 1, length: 8 * time.Second, broken: c.broken})
			assert.True(t, slices.ContainsFunc(r.violations, func(v string) bool { return strings.HasPrefix(v, c.check) }), "%q", r.violations)
		})
	}
}

// TestElectorRun is a campaign in which each candidate is the command elector run: none of their commands,
// nor what these have started, lives on when the next has begun.
func TestElectorRun(t *testing.T) {
	servertest.Long(t, "a campaign of faults")
	t.Parallel()
	elector := must.Get(buildElector(t.Context(), t.TempDir()))(t)
	r := campaignForTest(t, trial{backend: "etcd", servers: 1, strategy: "fair", faults: onProxies, seed: 3, length: short, elector: elector})
	assert.Empty(t, r.violations)
	assert.GreaterOrEqual(t, r.terms, 3)
	assert.Greater(t, r.unfenced.lines, 500)
}
