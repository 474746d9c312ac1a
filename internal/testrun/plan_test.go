package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each combination is tried by one of the two tiers; and in three turns both try each strategy
// on each single server, the second for races.
func TestCombinations(t *testing.T) {
	everywhere := without(nil)
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

// One server's tests are one call of go test, which skips the elections elsewhere.
func TestPlanForOneServer(t *testing.T) {
	for _, service := range []string{"zookeeper", "etcd", "consul"} {
		stages := plan(testTier, service, 0, []string{"conformance", "backend/" + service})
		require.Len(t, stages, 1)
		_, skip, found := strings.Cut(strings.Join(stages[0].testArgs(), " "), "-skip=")
		require.True(t, found)
		first, _ := combinations(service, 0)
		for _, c := range without(nil) {
			skipped := slices.Contains(strings.Split(skip, "|"), pattern([]combination{c}))
			assert.NotEqual(t, slices.Contains(first, c), skipped, c)
		}
	}
}

// Without a pattern go test would try all there is; and a pattern that names no test tries nothing.
func TestPatterns(t *testing.T) {
	packages := []string{".", "conformance", "backend/dial", "backend/memory", "backend/zookeeper", "backend/etcd", "backend/consul", "strategy/kafka"}
	for _, service := range append(services, "") {
		for _, tier := range []tier{testTier, restTier, allTiers} {
			for turn := range 3 {
				for _, s := range plan(tier, service, turn, packages) {
					about := fmt.Sprintf("%s of %s, service %q, turn %d", s.name, tier, service, turn)
					for _, a := range s.testArgs() {
						assert.False(t, strings.HasSuffix(a, "="), "%s: %s", about, a)
					}
					if service == "memory" { // whose set-up has no server
						for _, c := range places {
							assert.False(t, s.picks(c.test), about)
						}
						assert.False(t, s.picks("TestOverTheEndOfZooKeepersNumbers"), about)
					}
					elects := strings.Contains(s.name, "elections on") && !strings.Contains(s.name, "memory")
					assert.Equal(t, elects, len(s.combinations) > 0, about)
				}
			}
		}
	}

	exist := make(map[string]bool)
	err := filepath.WalkDir("../..", func(file string, of fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	all := strings.Join([]string{crowds, hogs, clusters, elections, electionsMemory, onZooKeeper, longest}, "|")
	for _, group := range regexp.MustCompile(`\^Test\((.*?)\)\$`).FindAllStringSubmatch(all, -1) {
		for one := range strings.SplitSeq(group[1], "|") {
			full := regexp.MustCompile("^Test" + one + "$")
			assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(exist)), full.MatchString), "no test %s", full)
		}
	}
	for _, c := range places {
		assert.True(t, exist[c.test], c.test)
	}
}
