package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/catalog"
)

const delay = 10 * time.Millisecond

func config() Config {
	return Config{
		Backends: []string{Embedded}, Strategies: catalog.Names(), N: []int{3, 10, 40},
		Changes: 80, Delay: delay, Seed: 1,
	}
}

// TestExact holds the exact number of calls of a leader change and of a join, at every number of candidates:
// docs/fair-or-herd.md states it for more than can be measured. On fake time no two candidates get in each
// other's way, so the time without a leader is that of its messages. It holds how that grows, too.
func TestExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := must.Get(Run(t.Context(), config()))(t)
		require.Len(t, out.Runs, len(catalog.Names())*3)
		turns := make(map[int]float64) // Jain's index if each has its turn, by N
		for _, r := range out.Runs {
			item, _ := catalog.Named(r.Strategy)
			name := fmt.Sprintf("%s, %d candidates", r.Strategy, r.N)
			assert.Empty(t, r.Truncated, name)
			assert.Len(t, r.Resigned.All, 80, name)
			assert.Zero(t, r.Crashed.N, name)
			assert.Equal(t, 80, r.Waits.N, name)
			assert.Equal(t, 81, sum(r.Fairness.Wins), name)
			assert.Len(t, r.Fairness.Wins, r.N, name)
			if want, known := exact(r.Strategy, float64(r.N)); known {
				want.test(t, name, r)
			}
			if item.Ordered {
				assert.Zero(t, r.Fairness.Inversions, name)
				assert.Equal(t, r.N-2, r.Fairness.LongestWait, name)
				assert.Greater(t, r.Fairness.Jain, 0.99, name)
				turns[r.N] = r.Fairness.Jain
			} else if r.N > 3 {
				// The scheduler chooses who is first, so how uneven it is differs from run to run. But chance
				// is never as even as turns, not once in a million.
				assert.Greater(t, r.Fairness.Inversions, 0.01, name)
				assert.Greater(t, r.Fairness.LongestWait, r.N-2, name)
				assert.Less(t, r.Fairness.Jain, turns[r.N], name)
			}
		}
		testGrowth(t, out.Growth)
		testRoundTrip(t, out)
	})
}

// A figure is what each change of leader costs with a strategy.
type figure struct {
	report.Cost
	join       float64 // wake-ups per join
	leaderless float64 // in delays of a message
	first      float64 // reads more, at the first change
}

// exact returns the figures with n candidates, for a strategy that docs/fair-or-herd.md has figures of.
func exact(strategy string, n float64) (f figure, known bool) {
	switch strategy {
	case "fair":
		// One to lead, one told that it is next, and the leader told of what it wrote into its own entry.
		f = figure{Cost: report.Cost{WakeUps: 3, Writes: 3, Operations: 9}, leaderless: 1}
	case "unfair":
		// The old leader, too, learns from a refused write that another leads.
		f = figure{Cost: report.Cost{WakeUps: n - 1, Writes: n + 1, Operations: 3*n + 1, Refused: n - 1}, leaderless: 2}
	case "kafka":
		f = figure{Cost: report.Cost{WakeUps: n - 1, Writes: n, Operations: 3*n - 1, Refused: n - 2}, leaderless: 2}
	case "parentwatch":
		// All waiting candidates are told that the leader has gone, and all except the next leader that it is
		// back.
		f = figure{Cost: report.Cost{WakeUps: n - 1 + n - 2, Writes: 2, Operations: 2*n + 3}, leaderless: 1}
		last := min(joins, n-1)
		f.join = n - 2 - (last-1)/2 // the mean of those that waited before each
	case "ranked":
		// One to lead, and the one behind it. Between the notice and its write the first lists; and at the
		// first change it reads those that have come after it, at most all.
		f = figure{Cost: report.Cost{WakeUps: 2, Writes: 3, Operations: n + 13}, leaderless: 3, first: n - 2}
	default:
		return f, false
	}
	return f, true
}

func (want figure) test(t *testing.T, name string, r report.Run) {
	assert.Equal(t, want.WakeUps, r.PerChange.WakeUps, name)
	assert.Equal(t, want.Writes, r.PerChange.Writes, name)
	assert.InDelta(t, want.Operations, r.PerChange.Operations, want.first/80, name)
	assert.Equal(t, want.Refused, r.PerChange.Refused, name)
	assert.InDelta(t, want.join, r.PerJoin.WakeUps, 1e-9, name)
	assert.Equal(t, want.Writes, r.Server["commits"], name)
	each := time.Duration(want.leaderless) * delay
	q := r.Resigned.Quantiles
	if want.first > 0 {
		assert.Greater(t, q.Max, each, name)
		assert.LessOrEqual(t, q.Max, each+time.Duration(want.first)*delay, name)
		assert.Equal(t, 79, count(r.Resigned.All, each), name)
		q.P99, q.Max = each, each
	}
	assert.Equal(t, report.Quantiles{N: 80, P50: each, P90: each, P99: each, Max: each}, q, name)
}

// TestSlowCrowd holds that a run waits for steps that take long because there are many candidates: the next
// one of ranked reads all the others.
func TestSlowCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Strategies, c.N, c.Changes, c.Delay = []string{"ranked"}, []int{100}, 2, 5*time.Second
		out := must.Get(Run(t.Context(), c))(t)
		assert.Greater(t, out.Runs[0].Resigned.Max, 90*c.Delay)
	})
}

// TestDue holds that nothing counts as quiet while a notice for a candidate is pending, however long a busy
// machine takes to deliver it.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{Crowd: crowd.New(t.Context(), 0, time.Second), service: owing{}, patience: time.Second}
		assert.ErrorContains(t, r.still(), "have not come to rest")
	})
}

// owing has a notice for somebody.
type owing struct{ embedded }

func (owing) due() int { return 1 }

func count(all []time.Duration, d time.Duration) (n int) {
	for _, one := range all {
		if one == d {
			n++
		}
	}
	return n
}

func sum(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

func testGrowth(t *testing.T, all []report.Growth) {
	slopes, flat := make(map[string]float64), make(map[string]bool)
	for _, g := range all {
		slopes[g.Strategy+" "+g.Figure] = g.Slope
		flat[g.Strategy+" "+g.Figure] = g.Flat
		within := 1e-9
		if g.Strategy == "ranked" {
			within = 1e-6 // how many the first change has to read depends on who entered together
		}
		if _, known := exact(g.Strategy, 2); known && g.Figure != "bytes" {
			assert.InDelta(t, 1, g.R2, within)
		}
	}
	assert.Len(t, slopes, len(catalog.Names())*4)
	for figure, want := range map[string]float64{
		"fair wakeUps": 0, "fair operations": 0, "unfair wakeUps": 1, "kafka wakeUps": 1, "parentwatch wakeUps": 2,
		"fair leaderless": 0, "unfair leaderless": 0, "ranked wakeUps": 0, "ranked leaderless": 0,
	} {
		assert.InDelta(t, want, slopes[figure], 1e-9, figure)
	}
	for figure, want := range map[string]bool{
		"fair wakeUps": true, "fair bytes": true, "fair leaderless": true, "unfair wakeUps": false, "parentwatch bytes": false, "ranked operations": false,
	} {
		assert.Equal(t, want, flat[figure], "whether the growth of "+figure+" is no more than noise")
	}
	// The next one reads all the others once, and at the first of 80 changes the winner does.
	assert.InDelta(t, 1, slopes["ranked operations"], 0.02)
}

// testRoundTrip holds that JSON keeps everything.
func testRoundTrip(t *testing.T, out report.Report) {
	text := must.Get(json.Marshal(out))(t)
	var back report.Report
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, out, back)
}

// TestCrashes holds that there are as many crashes, departures and arrivals as requested, the same for each
// strategy, and that their costs are separate.
func TestCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.N, c.Changes, c.Crashes, c.Churn, c.TTL = []int{6}, 20, 0.25, 1.5, time.Second
		out := must.Get(Run(t.Context(), c))(t)
		for _, r := range out.Runs {
			assert.Equal(t, 15, r.Resigned.N, r.Strategy)
			assert.Equal(t, 5, r.Crashed.N, r.Strategy)
			assert.Equal(t, 5, r.Unnoticed.N, r.Strategy)
			assert.LessOrEqual(t, r.Unnoticed.Max, time.Second, r.Strategy)
			// The service counts from the last heartbeat, up to a third of the timeout ago.
			assert.Greater(t, r.Unnoticed.P50, time.Second/2, r.Strategy)
			least := delay / 2 // the notice to the next one
			item, _ := catalog.Named(r.Strategy)
			if item.Seat {
				least += delay // and a write
			}
			if _, known := exact(r.Strategy, 2); !known {
				assert.GreaterOrEqual(t, slices.Min(r.Crashed.All), least, r.Strategy)
			} else if item.Ranked {
				// The list; and those that have come since it looked.
				least += delay
				assert.GreaterOrEqual(t, slices.Min(r.Crashed.All), least, r.Strategy)
				assert.LessOrEqual(t, r.Crashed.Max, least+5*delay, r.Strategy)
			} else {
				assert.Equal(t, least, r.Crashed.Max, r.Strategy)
			}
			assert.Equal(t, len(out.Runs[0].Fairness.Wins), len(r.Fairness.Wins), "the pattern is the same for all")
			assert.Greater(t, len(r.Fairness.Wins), 6+20)
			assert.Equal(t, 21, sum(r.Fairness.Wins))
		}
		assert.Equal(t, 5, out.Method.Crashes)
		testRoundTrip(t, out)
		again := must.Get(Run(t.Context(), c))(t)
		c.Seed++
		other := must.Get(Run(t.Context(), c))(t)
		assert.Equal(t, out.Runs[0].Fairness, again.Runs[0].Fairness, "the same seed")
		assert.NotEqual(t, out.Runs[0].Fairness, other.Runs[0].Fairness, "another seed")
	})
}

// TestSample holds that the recorded change shows the herd.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.N, c.Strategies = []int{10}, []string{"unfair"}
		out := must.Get(Run(t.Context(), c))(t)
		require.NotNil(t, out.Runs[0].Sample)
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, out.Runs[0].Sample.Present)
		kinds := make(map[report.EventKind]int)
		last := time.Duration(0)
		for _, e := range out.Runs[0].Sample.Events {
			kinds[e.Kind]++
			assert.GreaterOrEqual(t, e.At, last)
			last = e.At
			assert.Less(t, e.Candidate, 10)
			if e.Kind == report.Wrote {
				assert.Equal(t, delay, e.Took)
			}
		}
		assert.Equal(t, map[report.EventKind]int{
			report.Ended: 1, report.Elected: 1, report.WokenUp: 9, report.Wrote: 2, report.Refused: 9, report.Read: kinds[report.Read],
		}, kinds)
		assert.NotZero(t, kinds[report.Read])
	})
}

// TestInterrupted holds that the findings so far are returned.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		c := config()
		c.Progress = func(done, of int, _ string) {
			if done == 3+80+10+40 {
				interrupt(why)
			}
		}
		out, err := Run(ctx, c)
		assert.ErrorIs(t, err, why)
		require.Len(t, out.Runs, 2)
		assert.Empty(t, out.Runs[0].Truncated)
		assert.Equal(t, "interrupted", out.Runs[1].Truncated)
		assert.InDelta(t, 40, out.Runs[1].Resigned.N, 1)
		assert.Equal(t, 3.0, out.Runs[1].PerChange.WakeUps)
	})
}

// TestNoFigures holds that a run that ends before its first leader change has no figures, not even in JSON.
func TestNoFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		c := config()
		c.N, c.Strategies = []int{10}, []string{"fair"}
		c.Progress = func(done, _ int, _ string) {
			if done == 10 {
				interrupt(errors.New("enough"))
			}
		}
		out, err := Run(ctx, c)
		assert.Error(t, err)
		require.Len(t, out.Runs, 1)
		assert.True(t, out.Runs[0].Empty())
		text := must.Get(json.Marshal(out.Runs[0]))(t)
		assert.JSONEq(t, `{"service": "mem://", "strategy": "fair", "n": 10, "truncated": "interrupted"}`, string(text))
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.N, c.Changes = []int{3}, 4
		last, most, ran := 0, 0, 0
		c.Progress = func(done, of int, doing string) {
			assert.GreaterOrEqual(t, done, last)
			assert.True(t, strings.HasPrefix(doing, "mem://, "), doing)
			last, most = done, of
		}
		c.Ran = func(report.Run) { ran++ }
		must.Get(Run(t.Context(), c))(t)
		assert.Equal(t, len(catalog.Names())*(3+4), most)
		assert.Equal(t, most, last)
		assert.Equal(t, len(catalog.Names()), ran)
	})
}

func TestValidate(t *testing.T) {
	require.NoError(t, config().Validate())
	for flag, change := range map[string]func(*Config){
		`--strategy "fairer": unknown: there are ` + strings.Join(catalog.Names(), ", "): func(c *Config) { c.Strategies[1] = "fairer" },
		`--strategy fair: is given twice`:                                                func(c *Config) { c.Strategies[1] = "fair" },
		`--strategy "": name some of`:                                                    func(c *Config) { c.Strategies = nil },
		`--n 1: must be from 2`:                                                          func(c *Config) { c.N = []int{1} },
		`--n 100001: must be`:                                                            func(c *Config) { c.N = []int{100_001} },
		`--n 3: is given twice`:                                                          func(c *Config) { c.N = []int{3, 3} },
		`--n "": give numbers`:                                                           func(c *Config) { c.N = nil },
		`--changes 0: must be from 1`:                                                    func(c *Config) { c.Changes = 0 },
		`--crashes 1.5: is the share`:                                                    func(c *Config) { c.Crashes = 1.5 },
		`--churn -1: must be from 0`:                                                     func(c *Config) { c.Churn = -1 },
		`--delay -1ns: must be from 0 to 10s`:                                            func(c *Config) { c.Delay = -1 },
		`--ttl 1ms: the embedded service takes`:                                          func(c *Config) { c.TTL = time.Millisecond },
		`--ttl 1s: consul takes session timeouts from 10s`: func(c *Config) {
			c.Backends, c.TTL = []string{"consul://127.0.0.1"}, time.Second
		},
		`--backend "": name a service`:                       func(c *Config) { c.Backends = nil },
		`--backend mem://x: every run makes`:                 func(c *Config) { c.Backends = []string{"mem://x"} },
		`--backend zk://h: is given twice`:                   func(c *Config) { c.Backends = []string{"zk://h", "zk://h"} },
		`--backend: dial: unknown scheme "redis": there are`: func(c *Config) { c.Backends = []string{"redis://h"} },
	} {
		c := config()
		change(&c)
		assert.ErrorContains(t, c.Validate(), flag)
		_, err := Run(t.Context(), c)
		assert.ErrorContains(t, err, flag, "nothing is run")
	}
	c := config()
	c.N, c.Changes = nil, 0
	err := c.Validate()
	assert.ErrorContains(t, err, "--n")
	assert.ErrorContains(t, err, "--changes", "all faults at once")
}
