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
	if got, want := fmt.Sprint(ids(html)), "[glance change leaderless cost fairness waiting simulation]"; got != want {
		t.Errorf("sections %s, want %s", got, want)
	}
	for _, want := range []string{
		"fair, unfair, kafka, parentwatch and ranked with 3 to 1,000 candidates, measured on memory: (made up) and zk://127.0.0.1:2181 (made up)",
		"10 to 100,000 candidates, in simulated time",
		"<span>elector</span> <span>compare</span>", "2 processors, linux/amd64, go1.26.7", "29 February 2020",
		"120 leader changes in each run, 20 by a crash",
		"the time for one run was over after 31 leader changes", "ranked †",
		"Jain’s index: fair 1.00, unfair 0.32", "Calibration", "The largest error is",
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
		{"simulation", func(r *report.Report) { r.Simulation = nil }, "measured on", "simulation"},
		{"calibration", func(r *report.Report) { r.Simulation.Calibration = nil }, "The model was not compared", "measured: hollow"},
		{"all but one N", func(r *report.Report) {
			r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return r.N != 30 })
		}, "After a resignation: there is no curve to draw", `id="leaderless-memory`},
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
		{"measured runs", func(r *report.Report) { r.Runs, r.Growth = nil, nil }, "in simulated time", "measured on"},
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
	for _, want := range []string{"change-memory.svg", "change-zk.svg", "cost-memory.svg", "leaderless-zk.svg", "wins-zk.svg", "waits-zk.svg", "simulation.svg"} {
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
		shake := func(runs []report.Run) {
			for i := range runs {
				run := &runs[i]
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
		}
		shake(r.Runs)
		shake(r.Simulation.Runs)
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
		best, ok := strings.CutPrefix(c.Sub, "best ")
		if !ok || best < c.Main {
			t.Errorf("%s, N = %d: index %s, %q", run.Strategy, run.N, c.Main, c.Sub)
		}
	}
	r.Method.Churn = 0.1
	if c := (view{report: r}).jain(r.Runs[0]); c.Sub != "" {
		t.Errorf("with churn: %q", c.Sub)
	}
}
