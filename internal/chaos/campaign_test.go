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

// TestMain makes this binary a candidate if it was started as one.
func TestMain(m *testing.M) {
	candidateOnly()
	os.Exit(m.Run())
}

// short is the planned length of the tests' campaigns, and longer that of campaigns with faults between
// servers, each of which takes longer.
const (
	short  = 24 * time.Second
	longer = 32 * time.Second
)

// The candidate whose clock can be stepped can be built.
func TestSteppedCandidate(t *testing.T) {
	servertest.Long(t, "a build of the standard library")
	program := must.Get(buildStepped(t.Context(), t.TempDir()))(t)
	about, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).CombinedOutput()
	require.NoError(t, err, string(about))
	assert.Contains(t, string(about), "-tags="+clockTag)
}

// onProxies are the groups of faults that need no network of the servers.
var onProxies = []string{ofCandidates, ofServers}

// A short campaign on each service, with one server and with three, and one with faults between servers,
// find no violation. In all of them together each kind of fault occurs, and each strategy except one
// in which every candidate watches the directory, which is there to compare with.
func TestCampaigns(t *testing.T) {
	servertest.Long(t, "campaigns of faults")
	var mu sync.Mutex
	met := map[string]int{}
	tried := map[string]bool{}
	skipped := false
	between := []string{ofMembers}
	trials := []trial{
		{backend: "consul", servers: 3, strategy: "unfair", seed: 8},
		{backend: "zookeeper", servers: 3, strategy: "kafka", seed: 35},
		{backend: "etcd", servers: 3, strategy: "fair", seed: 44},
		{backend: "zookeeper", servers: 5, strategy: "fair", faults: between, seed: 96},
		{backend: "etcd", servers: 5, strategy: "unfair", faults: between, seed: 87},
		{backend: "consul", servers: 3, strategy: "fair", faults: between, seed: 19},
		{backend: "consul", servers: 1, strategy: "kafka", seed: 5},
		{backend: "zookeeper", servers: 1, strategy: "fair", seed: 37},
		{backend: "etcd", servers: 1, strategy: "unfair", seed: 3},
	}
	for _, c := range trials {
		tried[c.strategy] = true
	}
	for _, item := range catalog.All() {
		toCompareWith := item.Ordered && item.Herd
		if name := item.Strategy.Name(); !tried[name] && !toCompareWith {
			trials = append(trials, trial{backend: "etcd", servers: 1, strategy: name, seed: 4})
		}
	}
	t.Run("all", func(t *testing.T) {
		for _, c := range trials {
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
					assert.Greater(t, r.commits, 20) // of leaders that are mostly quiet
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
	for _, k := range kinds() {
		if skipped && k.group == ofMembers || k.group == ofCompanions { // TestDeaths covers the latter
			continue
		}
		assert.NotZero(t, met[k.name], k.name)
	}
}

// few limits the number of parallel campaigns to what a small machine can do in time.
var few = make(chan struct{}, 4)

// campaignForTest does a campaign, and keeps its recordings if the test fails.
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

// On each service the sessions of candidates that die are ended, half by a companion, half by an agent,
// which are killed and frozen, too. No session of a living candidate is ended.
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

// A campaign finds candidates that break a promise, and sessions of living candidates that are ended.
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

// If each candidate is the command elector run, no command, and no process that it has started, is alive
// when the next command has begun.
func TestElectorRun(t *testing.T) {
	servertest.Long(t, "a campaign of faults")
	t.Parallel()
	elector := must.Get(buildElector(t.Context(), t.TempDir()))(t)
	r := campaignForTest(t, trial{backend: "etcd", servers: 1, strategy: "fair", faults: onProxies, seed: 3, length: short, elector: elector})
	assert.Empty(t, r.violations)
	assert.GreaterOrEqual(t, r.terms, 3)
	assert.Greater(t, r.unfenced.lines, 500)
}
