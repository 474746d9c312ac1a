package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

const legend = `leaderless   time without a leader: from the call of Resign, or, in a crash, from the
             instant at which the service dropped the leader's entry (as another session
             was told of it), until the next Campaign has returned
p90, p99     where there are enough changes for them to be another than the longest: 10, 100
unnoticed    how long the service took to drop a crashed leader's entry: its session timeout
per change   of all candidates together, the old leader's return included: wake-ups (waits
             that returned with news), calls, writes refused of all, bytes of keys and values
per join     wake-ups that one more candidate causes
Jain         how evenly those won who were there all the time: 1 all equally often, 1/N one always;
             nothing where there were fewer elections than candidates
waits        leader changes that a candidate saw pass, at most, before it was elected
inversions   share of pairs of elections in which who came later won first: 0 is the order of arrival
growth       what each further candidate adds; ^0 is constant, ^1 linear, ^2 quadratic in N.
             Only where it is no noise: from the fewest candidates to the most a count has to
             change by more than 5 %; p50 of the times by a fifth, and p90 at one end has to
             be below p50 at the other, with 10 changes or more at both
`

// printTable prints a report for people to read.
func printTable(w io.Writer, r report.Report) error {
	t := &table{w: w}
	m := r.Method
	t.printf("%d leader changes in each run, %d of them crashes; churn %g; seed %d", m.Changes, m.Crashes, m.Churn, m.Seed)
	if m.Delay > 0 {
		t.printf("; round trip %v", m.Delay)
	}
	if m.TTL > 0 {
		t.printf("; session timeout %v", m.TTL)
	}
	t.printf("\n%s/%s, %d processors, %s, %s\n", r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Go, r.Made.Format(time.RFC3339))
	for _, service := range compared(r.Runs) {
		t.service(service, m.Changes, r.Runs)
		t.growth(service, r.Growth)
		t.server(service, r.Runs)
	}
	if len(r.Runs) == 0 {
		t.printf("\nNothing was run.\n")
		return t.err
	}
	t.printf("\n%s", legend)
	return t.err
}

// compared returns the services of the runs.
func compared(runs []report.Run) []string {
	var all []string
	for _, r := range runs {
		if !slices.Contains(all, r.Service) {
			all = append(all, r.Service)
		}
	}
	return all
}

// table writes until writing fails.
type table struct {
	w   io.Writer
	err error
}

func (t *table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// service prints the runs on a service, each of which should have this many changes.
func (t *table) service(name string, changes int, runs []report.Run) {
	t.printf("\n%s\n", name)
	runs = slices.DeleteFunc(slices.Clone(runs), func(r report.Run) bool { return r.Service != name })
	// Leave out a column that would be empty.
	percentiles := []int{50}
	for _, percent := range []int{90, 99} {
		if slices.ContainsFunc(runs, func(r report.Run) bool { return r.Resigned.Tells(percent) }) {
			percentiles = append(percentiles, percent)
		}
	}
	above, head := []string{"", ""}, []string{"strategy", "N"}
	for _, percent := range percentiles {
		above, head = append(above, ""), append(head, fmt.Sprintf("p%d", percent))
	}
	above[len(above)-1] = "leaderless,"
	above = append(above, "resigned", "crashed", "", "", "per change", "", "", "per join", "", "", "")
	head = append(head, "max", "p50", "unnoticed", "wake-ups", "calls", "refused", "bytes", "wake-ups", "Jain", "waits", "inversions")

	rows := [][]string{above, head}
	var notes []string
	for _, run := range runs {
		cells := []string{run.Strategy, fmt.Sprint(run.N)}
		if run.Truncated != "" {
			cells[0] += " *"
			notes = append(notes, fmt.Sprintf("* %s, %d candidates: %s", run.Strategy, run.N, run.Ended(changes)))
		}
		if run.Empty() {
			rows = append(rows, append(cells, slices.Repeat([]string{"-"}, len(head)-len(cells))...))
			continue
		}
		for _, percent := range percentiles {
			cells = append(cells, percentile(run.Resigned.Quantiles, percent))
		}
		rows = append(rows, append(cells, timed(run.Resigned.Quantiles, run.Resigned.Max),
			percentile(run.Crashed.Quantiles, 50), percentile(run.Unnoticed, 50),
			number(run.PerChange.WakeUps), number(run.PerChange.Operations), number(run.PerChange.Refused), number(run.PerChange.Bytes), number(run.PerJoin.WakeUps),
			jain(run), fmt.Sprint(run.Fairness.LongestWait), fmt.Sprintf("%.2f", run.Fairness.Inversions)))
	}
	t.columns(rows)
	for _, note := range notes {
		t.printf("%s\n", note)
	}
}

// columns prints rows in columns, aligned to the right.
func (t *table) columns(rows [][]string) {
	columns := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range rows {
		fmt.Fprintln(columns, strings.Join(cells, "\t")+"\t")
	}
	if err := columns.Flush(); t.err == nil {
		t.err = err
	}
}

func (t *table) growth(service string, all []report.Growth) {
	var rows [][]string
	for _, g := range all {
		if g.Service != service {
			continue
		}
		if g.Flat {
			rows = append(rows, []string{g.Strategy, figures[g.Figure], "-", ""})
			continue
		}
		each := number(g.Slope)
		if g.Figure == "leaderless" {
			each = short(time.Duration(g.Slope))
		}
		exponent := math.Round(10*g.Exponent)/10 + 0 // turns -0 into 0
		rows = append(rows, []string{g.Strategy, figures[g.Figure], each + " per candidate", fmt.Sprintf("N^%.1f", exponent)})
	}
	if rows != nil {
		t.printf("\ngrowth\n")
		t.columns(rows)
	}
}

var figures = map[string]string{"wakeUps": "wake-ups", "operations": "calls", "bytes": "bytes", "leaderless": "leaderless, resigned"}

// server prints the service's own counts.
func (t *table) server(service string, runs []report.Run) {
	var rows [][]string
	var names []string
	why := ""
	for _, r := range runs {
		if r.Service != service {
			continue
		}
		why = cmp.Or(r.ServerNote, why)
		if len(r.Server) == 0 {
			continue
		}
		if names == nil {
			names = slices.Sorted(maps.Keys(r.Server))
			rows = [][]string{append([]string{"strategy", "N"}, names...)}
		}
		cells := []string{r.Strategy, fmt.Sprint(r.N)}
		for _, name := range names {
			cells = append(cells, number(r.Server[name]))
		}
		rows = append(rows, cells)
	}
	if rows != nil {
		t.printf("\ncounted by the service itself, per leader change\n")
		t.columns(rows)
	}
	if why != "" {
		t.printf("\nthe service's own figures are left out: %s\n", why)
	}
}

// jain returns the index, or "-" if there were fewer elections than candidates, so that no strategy could
// have made them all win.
func jain(r report.Run) string {
	if r.Changes()+1 < r.N {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.Fairness.Jain)
}

// number returns v in short: with about three digits, and all of those before the point.
func number(v float64) string {
	switch a := max(v, -v); {
	case a < 0.005:
		return "0"
	case a < 9.95:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return fmt.Sprintf("%.0f", v)
}

// percentile returns one of p50, p90 and p99, or "-" if there are too few values. The median of one value is
// that value.
func percentile(q report.Quantiles, percent int) string {
	if percent > 50 && !q.Tells(percent) {
		return "-"
	}
	return timed(q, map[int]time.Duration{50: q.P50, 90: q.P90, 99: q.P99}[percent])
}

// timed returns d, or "-" if there are no values.
func timed(q report.Quantiles, d time.Duration) string {
	if q.N == 0 {
		return "-"
	}
	return short(d)
}

// short returns a duration with two or three digits.
func short(d time.Duration) string {
	switch a := max(d, -d); {
	case a == 0:
		return "0"
	case a < time.Microsecond:
		return fmt.Sprintf("%dns", d)
	case a < time.Millisecond:
		return fmt.Sprintf("%.0fµs", float64(d)/1e3)
	case a < 100*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/1e6)
	case a < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
