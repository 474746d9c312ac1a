package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

func written(t *testing.T, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ids are the sections that a page has.
func ids(html string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`<section id="([a-z]+)"`).FindAllStringSubmatch(html, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestSections(t *testing.T) {
	html := written(t, sample(t))
	if got, want := fmt.Sprint(ids(html)), "[glance change leaderless cost fairness waiting]"; got != want {
		t.Errorf("sections %s, want %s", got, want)
	}
	for _, want := range []string{
		"fair, unfair, kafka, parentwatch and ranked with 3 to 5,000 candidates, measured on memory: (made up) and zk://127.0.0.1:2181 (made up)",
		"<span>elector</span> <span>compare</span>", "2 processors, linux/amd64, go1.26.7", "29 February 2020",
		"120 leader changes in each run, 20 by a crash",
		"the time for one run was over after 31 leader changes", "ranked †",
		"Jain’s index: fair 1.00, unfair 0.32",
		"+95\u00a0B", "packets_received",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// Nothing is fetched, and nothing runs.
	for _, not := range []string{"<script", "<link rel=\"stylesheet", "@import", "url(", "<img", "<iframe"} {
		if strings.Contains(html, not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// TestMissing takes parts of a report away and looks for the sentence instead of them.
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
		}, "After a resignation: there is no curve to draw", `id="leaderless-memory`},
		{"all crashes but four", each(func(r *report.Run) { r.Crashed.N = min(r.Crashed.N, 4) }), "After a crash: there is no curve to draw", `<title id="leaderless-memory-2`},
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
			if !strings.Contains(html, c.says) {
				t.Errorf("the page does not say %q", c.says)
			}
			if c.not != "" && strings.Contains(html, c.not) {
				t.Errorf("the page has %q", c.not)
			}
			for name, svg := range Charts(r) {
				wellFormed(t, name, svg)
			}
		})
	}
}

func TestCharts(t *testing.T) {
	charts := Charts(sample(t))
	for _, want := range []string{"change-memory.svg", "change-zk.svg", "cost-memory.svg", "leaderless-zk.svg", "wins-zk.svg", "waits-zk.svg"} {
		svg, ok := charts[want]
		if !ok {
			t.Errorf("no %s", want)
			continue
		}
		wellFormed(t, want, svg)
		for _, part := range []string{"<title ", "<desc ", "prefers-color-scheme: dark", `role="img"`, "viewBox="} {
			if !strings.Contains(string(svg), part) {
				t.Errorf("%s has no %s", want, part)
			}
		}
	}
	// One SEES the herd: a ring for each wake-up, of which there are few in one picture and
	// many in the next.
	rings := func(strategy string) int {
		r := sample(t)
		r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return r.Strategy != strategy || r.Service[0] != 'm' })
		found := regexp.MustCompile(`<path class="s `+strategy+`" stroke-width="1.1" d="([^"]*)"`).FindAllStringSubmatch(string(Charts(r)["change-memory.svg"]), -1)
		n := 0
		for _, m := range found {
			n += strings.Count(m[1], "Z")
		}
		return n
	}
	if fair, unfair := rings("fair"), rings("unfair"); fair != 2 || unfair != 29 {
		t.Errorf("%d and %d rings for fair and unfair, want 2 and 29", fair, unfair)
	}
}

// TestCrowd holds that thousands of candidates are drawn: those that lead, and of the others as
// many as a browser draws quickly.
func TestCrowd(t *testing.T) {
	r := crowd(t)
	html := written(t, r)
	if want := "Of the candidates that do not lead, it shows one in 10."; !strings.Contains(html, want) {
		t.Errorf("the page does not say %q", want)
	}
	charts := Charts(r)
	for _, want := range []string{"change-memory.svg", "wins-memory.svg", "waits-memory.svg"} {
		svg, ok := charts[want]
		if !ok {
			t.Errorf("no %s", want)
		}
		if len(svg) > 1e6 {
			t.Errorf("%s has %d bytes", want, len(svg))
		}
		wellFormed(t, want, svg)
	}
}

// wellFormed fails unless the picture is XML, and its numbers are numbers.
func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if el, ok := token.(xml.StartElement); ok {
			for _, attr := range el.Attr {
				if strings.Contains(attr.Value, "NaN") || strings.Contains(attr.Value, "Inf") {
					t.Errorf("%s: <%s %s=%q>", name, el.Name.Local, attr.Name.Local, attr.Value)
				}
			}
		}
	}
}

// TestHostile holds that no text of a report gets out of its place. What a browser makes
// of it is looked at in TestPageInBrowser.
func TestHostile(t *testing.T) {
	html := written(t, hostile(t))
	for _, not := range []string{"<script", "<img", "onerror=alert(1)>]]"} {
		if strings.Contains(html, not) {
			t.Errorf("the page has %q", not)
		}
	}
	for name, svg := range Charts(hostile(t)) {
		wellFormed(t, name, svg)
		if !regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)*\.svg$`).MatchString(name) {
			t.Errorf("a file would be called %q", name)
		}
	}
}

// TestAnyFigures holds that no figures make a broken picture: zeros, huge ones, and those
// that do not fit together.
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
		if html := written(t, r); strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
			t.Errorf("seed %d: NaN or Inf in the page", seed)
		}
		for name, svg := range Charts(r) {
			wellFormed(t, fmt.Sprintf("seed %d: %s", seed, name), svg)
		}
	}
}

func TestWriteSaysWhatFailed(t *testing.T) {
	full := errors.New("the disk is full")
	if err := Write(failing{full}, sample(t)); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestJain holds that the best index is shown where it is known, and is never beaten.
func TestJain(t *testing.T) {
	r := sample(t)
	r.Method.Churn = 0
	for _, run := range r.Runs {
		c := view{report: r}.jain(run)
		best, ok := strings.CutPrefix(strings.Join(c.Sub, ""), "best ")
		if !ok || best < c.Main {
			t.Errorf("%s, N = %d: index %s, %q", run.Strategy, run.N, c.Main, c.Sub)
		}
	}
	r.Method.Churn = 0.1
	if c := (view{report: r}).jain(r.Runs[0]); c.Sub != nil {
		t.Errorf("with churn: %q", c.Sub)
	}
}

// failedRuns is a report of which every other run measured nothing, as when a service is gone.
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
	html := written(t, r)
	if want := "<li>memory: (made up), fair, N\u00a0= 3: failed: no session within 10s</li>"; !strings.Contains(html, want) {
		t.Errorf("the page does not say %q", want)
	}
	r.Growth = nil
	r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return !r.Empty() })
	html = written(t, r)
	if want := "Nothing was measured: every run failed."; !strings.Contains(html, want) {
		t.Errorf("the page does not say %q", want)
	}
	if want := "No run came to its end, so nothing can be said."; !strings.Contains(html, want) {
		t.Errorf("the page does not say %q", want)
	}
	for _, cell := range regexp.MustCompile(`<td>([^<]*)`).FindAllStringSubmatch(html, -1) {
		if !slices.Contains([]string{none, none + " †"}, cell[1]) {
			t.Errorf("a cell says %q", cell[1])
		}
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
		r := report.Report{Runs: c.runs}
		if got := strings.ReplaceAll((view{newPalette(r), r}).verdict(), nbsp, " "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

// TestQuantiles holds that few samples are not shown as if they were many.
func TestQuantiles(t *testing.T) {
	for n, want := range map[int]string{
		0: "–", 1: "1 ns", 2: "1 ns, max 4 ns", 9: "1 ns, max 4 ns", 10: "1 ns, p90 2 ns, max 4 ns", 100: "1 ns, p90 2 ns, p99 3 ns, max 4 ns",
	} {
		c := quantiles(report.Quantiles{N: n, P50: 1, P90: 2, P99: 3, Max: 4})
		if got := strings.ReplaceAll(strings.Join(append([]string{c.Main}, c.Sub...), ", "), nbsp, " "); got != want {
			t.Errorf("of %d: %s, want %s", n, got, want)
		}
	}
}

// TestShares holds that each line of waits begins at 0 %, on the axis.
func TestShares(t *testing.T) {
	for _, run := range sample(t).Runs {
		h := report.NewHistogram([]time.Duration{7, 30, 31, 900})
		for _, h := range []report.Histogram{run.Waits, h} {
			points := shares(h)
			if points[0].part != 0 || points[1].part == 0 || points[0].at >= points[1].at || points[len(points)-1].part != 1 {
				t.Errorf("%s, N = %d: %v", run.Strategy, run.N, points)
			}
		}
	}
	if got := boundBelow(3 * time.Microsecond); got != 2*time.Microsecond {
		t.Errorf("below 3µs: %v", got)
	}
}

// TestTimeline holds that there is a row for each candidate that was there, however they are
// numbered, and that one long change does not squeeze the others.
func TestTimeline(t *testing.T) {
	run := report.Run{N: 3, Sample: &report.Timeline{Present: []int{0, 4, 17}, Events: []report.Event{
		{At: 5, Took: 5, Candidate: 17, Kind: report.Elected}, {At: 0, Candidate: 4, Kind: report.Ended},
	}}}
	short := newChange(run)
	if short.rows != 3 || short.events[0].Candidate != 1 || short.events[1].Candidate != 2 || short.still != 10 {
		t.Errorf("%+v", short)
	}
	run.Sample.Events = append(run.Sample.Events, report.Event{At: 1e6, Candidate: 0, Kind: report.Read})
	long := newChange(run)
	// Of the candidates in the rows 0 to 2 those in rows 1 and 2 lead.
	if shown := long.shown(3); len(shown) != 3 {
		t.Errorf("all lead, or are the first in three: %v", shown)
	}
	long.events = append(long.events, report.Event{At: 1e6, Candidate: 1, Kind: report.Read}, report.Event{At: 1e6, Candidate: 3, Kind: report.Read}, report.Event{At: 1e6, Candidate: 4, Kind: report.Read})
	if shown := long.shown(3); len(shown) != 5 || shown[4].Candidate != 3 {
		t.Errorf("one in three of those who do not lead: %v", shown)
	}
	if _, until, cut := timeAxis([]change{short, long}); !cut || until > time.Microsecond {
		t.Errorf("the axis goes to %v, cut: %v", until, cut)
	}
	if _, until, cut := timeAxis([]change{long, long}); cut || until < 1e6 {
		t.Errorf("two alike: the axis goes to %v, cut: %v", until, cut)
	}
	// A picture of a part of what was tried says so.
	html := written(t, sample(t))
	if want := "This is a part of what was tried: the tables go up to 5,000 candidates"; strings.Count(html, want) != 3 {
		t.Errorf("%d pictures say that they show a part, want those of a change, of wins and of waits on memory", strings.Count(html, want))
	}
}
