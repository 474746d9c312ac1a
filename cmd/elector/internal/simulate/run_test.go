package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/parentwatch"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

func strategies() (all []elector.Strategy) {
	for _, item := range catalog.All() {
		all = append(all, item.Strategy)
	}
	return all
}

func simulate(t *testing.T, cfg Config) report.Run {
	t.Helper()
	if cfg.Model == (report.Model{}) {
		cfg.Model = plain
	}
	run, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Two and three candidates, by hand. The deletion takes effect 400 µs after the call, and
// each way takes 100 µs.
func TestByHand(t *testing.T) {
	const effect, way = 400 * us, 100 * us
	for _, c := range []struct {
		strategy elector.Strategy
		n        int
		want     time.Duration
	}{
		// The old leader has a notice first, and then the next one.
		{fair.New(), 2, effect + 100*us + way},
		{fair.New(), 3, effect + 100*us + way},
		// Who is told first after the old leader writes.
		{unfair.New(), 2, effect + 100*us + 2*way + 300*us + way},
		{unfair.New(), 3, effect + 100*us + 2*way + 300*us + way},
		{kafka.New(), 3, effect + 100*us + 2*way + 300*us + way},
		// Ten notices take longer than the way of the first one who is told.
		{unfair.New(), 10, effect + 500*us + 300*us + way},
		// The next one lists one name.
		{parentwatch.New(), 2, effect + 100*us + 2*way + 70*us + way},
		// It lists, and writes.
		{ranked.New(nil), 2, effect + 100*us + way + 2*way + 70*us + 2*way + 300*us},
	} {
		run := simulate(t, Config{Strategy: c.strategy, N: c.n, Changes: 20, Seed: 3})
		got := slices.Compact(slices.Sorted(slices.Values(run.Resigned.All)))
		if run.Resigned.N != 20 || !slices.Equal(got, []time.Duration{c.want}) {
			t.Errorf("%s with %d: leaderless for %v, want %v", c.strategy.Name(), c.n, got, c.want)
		}
	}
}

// The packets of a leader change and of the old leader's return, as they were measured on a
// real ZooKeeper: docs/performance.md has those of handovers (12, 248 and 393) and of
// enrolling (10, 6 and 4).
func TestPacketsAreZooKeepers(t *testing.T) {
	for _, c := range []struct {
		strategy elector.Strategy
		want     float64
	}{
		{fair.New(), 12 + 10}, {unfair.New(), 248 + 6}, {kafka.New(), 393 + 4},
	} {
		run := simulate(t, Config{Strategy: c.strategy, N: 50, Changes: 5})
		if got := run.Server["packets"]; got != c.want {
			t.Errorf("%s: %v packets, want %v", c.strategy.Name(), got, c.want)
		}
	}
}

// The same seed makes the same run, timeline included, however the goroutines are
// scheduled; another seed another one.
func TestSameSeed(t *testing.T) {
	text := func(s elector.Strategy, seed uint64) string {
		run := simulate(t, Config{Strategy: s, N: 40, Changes: 4, Crashes: 3, Seed: seed})
		b, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, s := range strategies() {
		first := text(s, 1)
		before := runtime.GOMAXPROCS(1)
		again := text(s, 1)
		runtime.GOMAXPROCS(before)
		if again != first {
			t.Errorf("%s: the same seed makes\n%s\nand\n%s", s.Name(), first, again)
		}
		if text(s, 2) == first {
			t.Errorf("%s: another seed makes the same run", s.Name())
		}
	}
}

// What the strategies are known for.
func TestGrowth(t *testing.T) {
	sizes := []int{10, 100, 400}
	type growth struct{ leaderless, wakeUps, bytes float64 } // exponents
	for _, c := range []struct {
		strategy elector.Strategy
		want     growth
	}{
		{fair.New(), growth{0, 0, 0}},
		{unfair.New(), growth{1, 1, 1}},
		{kafka.New(), growth{1, 1, 1}},
		{parentwatch.New(), growth{1.5, 1, 2}}, // the time goes from linear to quadratic
		{ranked.New(nil), growth{0, 0, 1}},     // the next one reads all that have come since it has looked
	} {
		var x, leaderless, wakeUps, bytes []float64
		for _, n := range sizes {
			run := simulate(t, Config{
				Strategy: c.strategy, N: n, Changes: 11, Crashes: 2, Seed: 5,
				Model: report.Model{RoundTrip: 20 * us, Write: 20 * us, Read: 20 * us, Notice: 20 * us, KiB: 5 * us},
			})
			x = append(x, float64(n))
			leaderless = append(leaderless, float64(run.Resigned.P50))
			wakeUps, bytes = append(wakeUps, run.PerChange.WakeUps), append(bytes, run.PerChange.Bytes)
		}
		exponent := func(y []float64) float64 { _, e, _ := report.Line(x, y); return e }
		got := growth{exponent(leaderless), exponent(wakeUps), exponent(bytes)}
		near := func(a, b float64) bool { return a-b < 0.3 && b-a < 0.3 }
		if !near(got.leaderless, c.want.leaderless) || !near(got.wakeUps, c.want.wakeUps) || !near(got.bytes, c.want.bytes) {
			t.Errorf("%s grows as N to the power of %+v, want %+v", c.strategy.Name(), got, c.want)
		}
	}
}

func TestCrash(t *testing.T) {
	const ttl = 6 * time.Second
	for _, s := range strategies() {
		run := simulate(t, Config{Strategy: s, N: 5, Crashes: 12, TTL: ttl, Seed: 7})
		if run.Crashed.N != 12 || len(run.Crashed.All) != 12 || run.Resigned.N != 0 || run.Unnoticed.N != 12 {
			t.Fatalf("%s: %+v", s.Name(), run)
		}
		// It is counted from the last heartbeat, a third of the timeout ago at most.
		if u := run.Unnoticed; u.Max > ttl || u.P50 <= ttl*2/3 {
			t.Errorf("%s: unnoticed for %+v", s.Name(), u)
		}
		// From the dropping on it is as after a resignation, less the deletion's 400 µs; the
		// dead leader's notices, which would have delayed the others', are not sent.
		least, most := 150*us, 3*time.Millisecond
		if l := run.Crashed; slices.Min(l.All) < least || l.Max > most {
			t.Errorf("%s: leaderless for %v", s.Name(), l.All)
		}
		if run.Sample == nil || !run.Sample.Crash {
			t.Errorf("%s: sample %+v", s.Name(), run.Sample)
		}
	}
}

// A server that needs hours for one leader change: longer than any timeout that the electors
// have, and than the session's.
func TestSlowServer(t *testing.T) {
	for _, s := range strategies() {
		run := simulate(t, Config{Strategy: s, N: 100, Changes: 5, Crashes: 5, Model: report.Model{RoundTrip: time.Second, Write: 20 * time.Second, Read: time.Minute, Notice: 20 * time.Second, KiB: us}})
		if run.Resigned.N != 5 || run.Crashed.N != 5 {
			t.Errorf("%s: %+v", s.Name(), run)
		}
	}
}

func TestFairness(t *testing.T) {
	run := simulate(t, Config{Strategy: fair.New(), N: 5, Changes: 19, Seed: 1})
	f := run.Fairness
	if f.Jain != 1 || f.Inversions != 0 || f.LongestWait != 4 || !slices.Equal(f.Wins, []int{4, 4, 4, 4, 4}) {
		t.Errorf("fair: %+v", f)
	}
	if run.Waits.N != 20 || len(run.Waits.Count) != len(run.Waits.Bounds)+1 {
		t.Errorf("waits %+v", run.Waits)
	}
	run = simulate(t, Config{Strategy: unfair.New(), N: 5, Changes: 60, Seed: 1})
	if f := run.Fairness; f.Jain < 0.5 || f.Jain > 0.999 || f.Inversions == 0 {
		t.Errorf("unfair: %+v", f)
	}
	run = simulate(t, Config{Strategy: fair.New(), N: winsN + 1, Changes: 1})
	if run.Fairness.Wins != nil || run.Sample != nil {
		t.Error("wins or a sample of a crowd that nobody can look at")
	}
}

// In the sample the herd can be seen: who was told, and who wrote in vain.
func TestSample(t *testing.T) {
	run := simulate(t, Config{Strategy: unfair.New(), N: 10, Changes: 2, Seed: 1})
	counts := make(map[report.EventKind]int)
	last := time.Duration(0)
	for _, e := range run.Sample.Events {
		counts[e.Kind]++
		if e.At < last || e.Candidate < 0 || e.Candidate >= 10 {
			t.Errorf("%+v after %v", e, last)
		}
		last = e.At
	}
	// Nine are told, and the old leader of its own end; one deletes, one creates, and eight
	// are refused and read again, as the winner reads its own.
	want := map[report.EventKind]int{report.WokenUp: 10, report.Wrote: 2, report.Refused: 8, report.Read: 9, report.Ended: 1, report.Elected: 1}
	for kind, n := range want {
		if counts[kind] != n {
			t.Errorf("%d of %s, want %d", counts[kind], kind, n)
		}
	}
	if first := run.Sample.Events[0]; first.At != 0 {
		t.Errorf("it begins with %+v", first)
	}
}

func TestEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := Config{Strategy: unfair.New(), N: 20, Changes: 1000, Model: plain}
	cfg.Progress = func(done, all int) {
		if done == 2 {
			cancel()
		}
		if done > 2 || all != 1000 {
			t.Errorf("%d of %d done", done, all)
		}
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if now := runtime.NumGoroutine(); now > before+1 {
		t.Errorf("%d goroutines, %d before", now, before)
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	_, err := Run(t.Context(), Config{N: 1, Changes: -1, TTL: -1, Model: report.Model{Read: -1}})
	for _, part := range []string{"Strategy", "Config.N 1", "Changes -1", "TTL", "Read"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}
