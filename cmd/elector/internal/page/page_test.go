package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

func written(t *testing.T, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r))
	return b.String()
}

func TestSections(t *testing.T) {
	html := written(t, sample(t))
	var ids []string
	for _, m := range regexp.MustCompile(`<section id="([a-z]+)"`).FindAllStringSubmatch(html, -1) {
		ids = append(ids, m[1])
	}
	assert.Equal(t, []string{"glance", "change", "leaderless", "cost", "fairness", "waiting"}, ids)
	for _, want := range []string{
		"fair, unfair, kafka, parentwatch and ranked with 3 to 5,000 candidates, measured on memory: (made up) and zk://127.0.0.1:2181 (made up)",
		"<span>elector</span> <span>compare</span>", "2 processors, linux/amd64, go1.26.7", "29 February 2020",
		"120 leader changes in each run, 20 by a crash",
		"the time for one run was over after 31 leader changes", "ranked †",
		"Jain’s index: fair 1.00, unfair 0.32",
		"+95\u00a0B", "packets_received",
	} {
		assert.Contains(t, html, want)
	}
	// Nothing is fetched, and nothing runs.
	for _, not := range []string{"<script", "<link rel=\"stylesheet", "@import", "url(", "<img", "<iframe"} {
		assert.NotContains(t, html, not)
	}
}

// TestMissing removes parts of a report and looks for the sentence that replaces them.
func TestMissing(t *testing.T) {
	each := func(change func(*report.Run)) func(*report.Report) {
		return func(r *report.Report) {
			for i := range r.Runs {
				change(&r.Runs[i])
			}
		}
	}
	for _, c := range []struct {
		name    string
		without func(*report.Report)
		says    string
		not     string
	}{
		{"everything", func(r *report.Report) { *r = report.Report{} }, "the report has no runs", "<section"},
		{"crashes", each(func(r *report.Run) { r.Crashed, r.Unnoticed = report.Leaderless{}, report.Quantiles{} }), "No leader crashed in these runs.", "Before that the service"},
		{"resignations", each(func(r *report.Run) { r.Resigned = report.Leaderless{} }), "No leader resigned in these runs.", ""},
		{"all but one N", func(r *report.Report) {
			r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return r.N != 30 })
		}, "There are no curves against the number of candidates: all runs had 30 candidates.", "No curve for"},
		{"all crashes but four", each(func(r *report.Run) { r.Crashed.N = min(r.Crashed.N, 4) }), "No curve for after a crash: ", `<title id="leaderless-memory-2`},
		{"samples", each(func(r *report.Run) { r.Sample = nil }), "No leader change was recorded event by event.", `id="change-memory`},
		{"one sample", each(func(r *report.Run) {
			if r.Strategy == "kafka" {
				r.Sample = nil
			}
		}), "No change was recorded with kafka.", ""},
		{"wins", each(func(r *report.Run) { r.Fairness = report.Fairness{} }), "Nobody was elected.", `id="wins-`},
		{"waits", each(func(r *report.Run) { r.Waits = report.Histogram{} }), "No waits were recorded.", `id="waits-`},
		{"growth", func(r *report.Report) { r.Growth = nil }, "Wake-ups per leader change.", "Growth with N."},
		{"figures of the service", each(func(r *report.Run) { r.Server, r.ServerNote = nil, "nobody listens" }), "figures of the service’s own: nobody listens", "packets_received"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sample(t)
			c.without(&r)
			html := written(t, r)
			assert.Contains(t, html, c.says)
			if c.not != "" {
				assert.NotContains(t, html, c.not)
			}
			charts(t, r)
		})
	}
}

// noNumber is a figure that is not a number, with what follows it.
var noNumber = regexp.MustCompile(`(NaN|Inf).{0,200}`)

// charts holds that there are pictures of these names, and that all pictures are XML whose numbers are numbers.
func charts(t *testing.T, r report.Report, want ...string) map[string][]byte {
	t.Helper()
	all := Charts(r)
	for _, name := range want {
		assert.Contains(t, all, name)
	}
	for name, svg := range all {
		assert.Regexp(t, `^[a-z]+(-[a-z0-9]+)*\.svg$`, name)
		for _, part := range []string{"<title ", "<desc ", "prefers-color-scheme: dark", `role="img"`, "viewBox="} {
			assert.Contains(t, string(svg), part, name)
		}
		require.NoError(t, xml.Unmarshal(svg, new(struct{})), name)
		assert.Empty(t, noNumber.FindString(string(svg)), name)
	}
	return all
}

func TestCharts(t *testing.T) {
	charts(t, sample(t), "change-memory.svg", "change-zk.svg", "cost-memory.svg", "leaderless-zk.svg", "wins-zk.svg", "waits-zk.svg")
	// One SEES the herd: a ring for each wake-up, few in one picture and many in the next.
	rings := func(strategy string) int {
		r := sample(t)
		r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return r.Strategy != strategy || r.Service[0] != 'm' })
		found := regexp.MustCompile(`<path class="s `+string(newView(r).looks[strategy].ink)+`" stroke-width="1.1" d="([^"]*)"`).FindAllStringSubmatch(string(Charts(r)["change-memory.svg"]), -1)
		n := 0
		for _, m := range found {
			n += strings.Count(m[1], "Z")
		}
		return n
	}
	assert.Equal(t, 2, rings("fair"))
	assert.Equal(t, 29, rings("unfair"))
}

// TestCrowd holds that thousands of candidates are drawn: those that lead, and as many of the others as a
// browser draws quickly.
func TestCrowd(t *testing.T) {
	r := crowd(t)
	assert.Contains(t, written(t, r), "Of the candidates that do not lead, it shows one in 10.")
	for name, svg := range charts(t, r, "change-memory.svg", "wins-memory.svg", "waits-memory.svg") {
		assert.LessOrEqual(t, len(svg), 1_000_000, name)
	}
}

// TestHostile holds that no text of a report gets out of its place. TestPageInBrowser checks it in a browser.
func TestHostile(t *testing.T) {
	html := written(t, hostile(t))
	for _, not := range []string{"<script", "<img", "onerror=alert(1)>]]"} {
		assert.NotContains(t, html, not)
	}
	charts(t, hostile(t))
}

// TestAnyFigures holds that no figures make a broken picture: zeros, huge ones, and those that do not fit
// together.
func TestAnyFigures(t *testing.T) {
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 0))
		some := func() time.Duration {
			return []time.Duration{0, 1, -5, time.Duration(dice.Int64N(1e6)), time.Duration(dice.Int64N(1e15))}[dice.IntN(5)]
		}
		quantiles := func() report.Quantiles {
			return report.Quantiles{N: dice.IntN(3), P50: some(), P90: some(), P99: some(), Max: some()}
		}
		r := sample(t)
		for i := range r.Runs {
			run := &r.Runs[i]
			run.N = []int{0, 1, run.N, dice.IntN(1e6)}[dice.IntN(4)]
			run.Resigned.Quantiles, run.Crashed.Quantiles, run.Unnoticed = quantiles(), quantiles(), quantiles()
			run.PerChange.WakeUps, run.PerChange.Bytes = float64(some()), float64(some())
			run.Fairness.Wins = run.Fairness.Wins[:dice.IntN(len(run.Fairness.Wins)+1)]
			run.Waits.Quantiles = quantiles()
			run.Waits.Bounds = run.Waits.Bounds[:dice.IntN(len(run.Waits.Bounds)+1)]
			if run.Sample != nil {
				for j := range run.Sample.Events {
					e := &run.Sample.Events[j]
					e.At, e.Took = some(), max(some(), 0)
					e.Candidate = dice.IntN(40)
				}
				run.Sample.Events = run.Sample.Events[:dice.IntN(len(run.Sample.Events)+1)]
			}
		}
		for i := range r.Growth {
			r.Growth[i].Slope = float64(some())
		}
		assert.Empty(t, noNumber.FindString(written(t, r)), "seed %d", seed)
		charts(t, r)
	}
}

func TestWriteSaysWhatFailed(t *testing.T) {
	shut, w := io.Pipe()
	full := errors.New("the disk is full")
	require.NoError(t, shut.CloseWithError(full))
	assert.ErrorIs(t, Write(w, sample(t)), full)
}

// TestJain holds that the best index is shown where it is known, and is never beaten.
func TestJain(t *testing.T) {
	r := sample(t)
	r.Method.Churn = 0
	for _, run := range r.Runs {
		c := newView(r).jain(run)
		best, ok := strings.CutPrefix(c[1], "best ")
		assert.True(t, ok && best >= c[0], "%s, N = %d: %q", run.Strategy, run.N, c)
	}
	r.Method.Churn = 0.1
	assert.Len(t, newView(r).jain(r.Runs[0]), 1, "with churn")
}

// failedRuns is a report in which every other run measured nothing, as when a service is gone.
func failedRuns(t *testing.T) report.Report {
	r := sample(t)
	for i := range r.Runs {
		if run := &r.Runs[i]; i%2 == 0 {
			*run = report.Run{Service: run.Service, Strategy: run.Strategy, N: run.N, Truncated: "no session within 10s"}
		}
	}
	return r
}

// TestFailed holds that a run that measured nothing has no figures, not even zeros.
func TestFailed(t *testing.T) {
	r := failedRuns(t)
	assert.Contains(t, written(t, r), "<li>memory: (made up), fair, N\u00a0= 3: failed: no session within 10s</li>")
	r.Growth = nil
	r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return !r.Empty() })
	html := written(t, r)
	assert.Contains(t, html, "Nothing was measured: every run failed.")
	assert.Contains(t, html, "No run came to its end, so nothing can be said.")
	for _, cell := range regexp.MustCompile(`<td>([^<]*)`).FindAllStringSubmatch(html, -1) {
		assert.Contains(t, []string{none, none + " †"}, cell[1])
	}
}

func TestVerdict(t *testing.T) {
	run := func(strategy string, wakeUps float64, p50, p90 time.Duration) report.Run {
		return report.Run{Service: "mem://", Strategy: strategy, N: 50, PerChange: report.Cost{WakeUps: wakeUps},
			Resigned: report.Leaderless{Quantiles: report.Quantiles{N: 20, P50: p50, P90: p90, Max: p90}}}
	}
	fair, unfair := run("fair", 2.97, 200, 210), run("unfair", 49, 500, 510)
	kafka, parentwatch, ranked := run("kafka", 48.9, 480, 520), run("parentwatch", 97, 220, 240), run("ranked", 2, 700, 720)
	few, cut, bigger := unfair, unfair, unfair
	few.Resigned.N = 9
	cut.Truncated = "interrupted"
	bigger.N, bigger.Service = 500, "zk://h"
	for name, c := range map[string]struct {
		runs []report.Run
		want string
	}{
		"all": {[]report.Run{fair, unfair, kafka, parentwatch, ranked},
			"At 50 candidates, ranked wakes 2 per leader change, fair 3, unfair and kafka all 49, parentwatch 97; after a resignation a leader is back soonest with fair and parentwatch (200 ns to 220 ns), last with ranked (700 ns)."},
		// One between two that are apart is like neither of them.
		"scattered": {[]report.Run{fair, run("unfair", 49, 500, 800), run("kafka", 49, 520, 530), ranked},
			"At 50 candidates, ranked wakes 2 per leader change, fair 3, unfair and kafka all 49; after a resignation a leader is back soonest with fair (200 ns), last with ranked (700 ns)."},
		"no difference": {[]report.Run{unfair, kafka},
			"At 50 candidates, unfair and kafka wake all 49 per leader change; their times without a leader are too close to tell them apart."},
		"too few":     {[]report.Run{few}, "At 50 candidates, unfair wakes all 49 per leader change."},
		"one":         {[]report.Run{fair}, "At 50 candidates, fair wakes 3 per leader change; after a resignation there is no leader for 200 ns."},
		"cut short":   {[]report.Run{cut}, "No run came to its end, so nothing can be said."},
		"two sizes":   {[]report.Run{fair, unfair, bigger}, "At 50 candidates on mem://, fair wakes 3 per leader change, unfair all 49; after a resignation a leader is back soonest with fair (200 ns), last with unfair (500 ns)."},
		"most of two": {[]report.Run{fair, bigger}, "At 500 candidates on zk://h, unfair wakes 49 per leader change; after a resignation there is no leader for 500 ns."},
		"nothing":     {nil, ""},
	} {
		assert.Equal(t, c.want, strings.ReplaceAll(newView(report.Report{Runs: c.runs}).Verdict(), nbsp, " "), name)
	}
}

// TestQuantiles holds that few samples are not shown as if they were many.
func TestQuantiles(t *testing.T) {
	for n, want := range map[int]string{
		0: "–", 1: "1 ns", 2: "1 ns, max 4 ns", 9: "1 ns, max 4 ns", 10: "1 ns, p90 2 ns, max 4 ns", 100: "1 ns, p90 2 ns, p99 3 ns, max 4 ns",
	} {
		c := quantiles(report.Quantiles{N: n, P50: 1, P90: 2, P99: 3, Max: 4})
		assert.Equal(t, want, strings.ReplaceAll(strings.Join(c, ", "), nbsp, " "), "of %d", n)
	}
}

// TestShares holds that each line of waits begins at 0 %, on the axis.
func TestShares(t *testing.T) {
	for _, run := range sample(t).Runs {
		h := report.NewHistogram([]time.Duration{7, 30, 31, 900})
		for _, h := range []report.Histogram{run.Waits, h} {
			points := shares(h)
			assert.False(t, points[0].part != 0 || points[1].part == 0 || points[0].at >= points[1].at || points[len(points)-1].part != 1,
				"%s, N = %d: %v", run.Strategy, run.N, points)
		}
	}
	for v, want := range map[float64]float64{1: 1, 2: 2, 4.9: 2, 999: 500, 1e9 - 1: 5e8, 1e9: 1e9, 3e3: 2e3} {
		assert.Equal(t, want, stepBelow(v), v)
	}
}

// TestTimeline holds that there is a row for each present candidate, with any numbers, and that one long
// change does not squeeze the others.
func TestTimeline(t *testing.T) {
	run := report.Run{N: 3, Sample: &report.Timeline{Present: []int{0, 4, 17}, Events: []report.Event{
		{At: 5, Took: 5, Candidate: 17, Kind: report.Elected}, {At: 0, Candidate: 4, Kind: report.Ended},
	}}}
	short := newChange(run)
	assert.Equal(t, 3, short.rows)
	assert.Equal(t, []int{1, 2}, []int{short.events[0].Candidate, short.events[1].Candidate})
	assert.EqualValues(t, 10, short.still)
	run.Sample.Events = append(run.Sample.Events, report.Event{At: 1e6, Candidate: 0, Kind: report.Read})
	long := newChange(run)
	// Of the candidates in rows 0 to 2, those in rows 1 and 2 lead.
	assert.Len(t, long.shown(3), 3, "all lead, or are the first in three")
	long.events = append(long.events, report.Event{At: 1e6, Candidate: 1, Kind: report.Read}, report.Event{At: 1e6, Candidate: 3, Kind: report.Read}, report.Event{At: 1e6, Candidate: 4, Kind: report.Read})
	shown := long.shown(3)
	require.Len(t, shown, 5, "one in three of those who do not lead")
	assert.Equal(t, 3, shown[4].Candidate)
	_, until, cut := timeAxis([]change{short, long})
	assert.True(t, cut && until <= time.Microsecond, "the axis goes to %v, cut: %v", until, cut)
	_, until, cut = timeAxis([]change{long, long})
	assert.True(t, !cut && until >= 1e6, "two alike: the axis goes to %v, cut: %v", until, cut)
	// Pictures that show a part say so: those of a change, of wins and of waits on memory.
	assert.Equal(t, 3, strings.Count(written(t, sample(t)), "This is a part of what was tried: the tables go up to 5,000 candidates"))
}
