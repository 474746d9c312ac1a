package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/catalog"
)

const timeout = 2 * time.Second

var anyFault = []string{ofCandidates, ofServers, ofMembers, ofCompanions}

// A plan keeps its promises with any seed.
func TestPlan(t *testing.T) {
	for seed := range uint64(200) {
		for _, servers := range []int{1, 3, 5} {
			all := kindsFor(anyFault, servers, true)
			plan := makePlan(seed, all, timeout, 4*time.Minute)
			assert.Equal(t, fmt.Sprint(plan), fmt.Sprint(makePlan(seed, kindsFor(anyFault, servers, true), timeout, 4*time.Minute)))
			require.Greater(t, len(plan), len(all), "seed %d", seed)
			seen := map[string]bool{}
			for i, s := range plan {
				assert.GreaterOrEqual(t, servers, s.Kind.servers, s)
				assert.GreaterOrEqual(t, s.For, s.Kind.least(timeout), s)
				assert.LessOrEqual(t, s.For, s.Kind.most(timeout), s)
				if s.Overlap {
					last := plan[i-1]
					assert.False(t, last.Overlap, "three at once")
					assert.False(t, last.Kind.onServer() && s.Kind.onServer(), "two of the service at once")
					assert.LessOrEqual(t, s.Wait, last.For)
				}
				if i < len(all) {
					seen[s.Kind.name] = true
				}
			}
			assert.Len(t, seen, len(all), "each kind comes before any comes again")
		}
	}
	assert.NotEqual(t, fmt.Sprint(makePlan(1, kindsFor(anyFault, 3, true), timeout, time.Minute)), fmt.Sprint(makePlan(2, kindsFor(anyFault, 3, true), timeout, time.Minute)))
}

// A longer campaign begins like the shorter one with the same seed.
func TestLonger(t *testing.T) {
	for seed := range uint64(50) {
		short, long := makePlan(seed, kindsFor(anyFault, 3, true), timeout, 20*time.Second), makePlan(seed, kindsFor(anyFault, 3, true), timeout, time.Minute)
		assert.Equal(t, fmt.Sprint(short), fmt.Sprint(long[:len(short)]))
	}
}

// A stop is shorter than the shortest window, or longer than the longest time until the session has ended,
// as its name says.
func TestStops(t *testing.T) {
	for _, k := range kinds() {
		switch k.name {
		case "SIGSTOP < window":
			assert.Less(t, k.most(timeout), timeout*7/8-timeout/4, "the window less one pause between heartbeats")
		case "SIGSTOP > window":
			assert.Greater(t, k.least(timeout), timeout)
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.True(t, o.clock)
	assert.Len(t, o.trials(), 4*2*len(catalog.Names()))
	o, err = parse(strings.Fields("-backend etcd,consul -servers 5 -strategy kafka -faults member -seed 9 -minutes 0.5 -clock=false"), io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []trial{
		{backend: "etcd", servers: 5, strategy: "kafka", faults: []string{"member"}, seed: 9, length: 30 * time.Second},
		{backend: "consul", servers: 5, strategy: "kafka", faults: []string{"member"}, seed: 9, length: 30 * time.Second},
	}, o.trials())
	again := must.Get(parse(strings.Fields(o.trials()[0].args()), io.Discard))(t)
	assert.Equal(t, o.trials()[:1], again.trials())

	o, err = parse(strings.Fields("-backend zookeeper,etcd,consul-ttl -servers 3 -strategy fair -stock"), io.Discard)
	require.NoError(t, err)
	again = must.Get(parse(strings.Fields(o.trials()[1].args()), io.Discard))(t)
	assert.True(t, again.trials()[0].stock)
	_, err = parse(strings.Fields("-backend consul -stock"), io.Discard)
	assert.ErrorContains(t, err, `-stock -backend "consul": there are zookeeper, etcd, consul-ttl`)

	_, err = parse(strings.Fields("-backend redis -servers 2 -strategy first -faults none -minutes 0 more"), io.Discard)
	for _, says := range []string{`-backend "redis": there are zookeeper, etcd, consul, consul-ttl`, `-servers "2": there are 1, 3, 5`, `"first"`, `"none"`, `"more"`, "-minutes 0"} {
		assert.ErrorContains(t, err, says)
	}
}
