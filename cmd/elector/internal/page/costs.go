package page

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A figure is drawn against N.
type figure struct {
	name        string // in report.Growth, to stand beside the strategy's
	title, note string
	format      func(float64) string
	of          func(report.Run) point
}

// draw adds a panel with a curve for each strategy to a part's picture, and reports whether there is one.
func (s service) draw(p *part, f figure) bool {
	desc := strings.ToUpper(f.note[:1]) + f.note[1:] + " against the number of candidates."
	var curves []curve
	lines := false
	for _, strategy := range strategies(s.runs) {
		c := curve{look: s.looks[strategy], label: strategy}
		if g, ok := s.grown(strategy, f.name); ok && !g.Flat {
			c.label += " " + slope(g, f.format)
		}
		for _, n := range sizes(s.runs) {
			// A logarithmic axis cannot show the others.
			if run, ok := s.find(strategy, n); ok && n >= 1 && f.of(run).mid > 0 {
				at := f.of(run)
				at.n = n
				c.points = append(c.points, at)
			}
		}
		if len(c.points) > 0 {
			curves = append(curves, c)
			first, last := c.points[0], c.points[len(c.points)-1]
			lines = lines || first.n != last.n
			desc += fmt.Sprintf(" %s: %s at N = %s, %s at N = %s.", strategy, f.format(first.mid), count(float64(first.n)), f.format(last.mid), count(float64(last.n)))
		}
	}
	if !lines {
		return false
	}
	p.Picture.panels = append(p.Picture.panels, panel{title: f.title, note: f.note, desc: desc, width: 360, tall: 310, draw: scaling(curves, f.format)})
	return true
}

// undrawn is the sentence for figures without a curve. With one N there are none at all, which the page says once.
func (s service) undrawn(titles []string) []string {
	if len(titles) == 0 || len(sizes(s.runs)) == 1 {
		return nil
	}
	return []string{"No curve for " + list(titles) + ": it takes figures above 0 for two N, and five times for each."}
}

// leaderless shows the time without a leader, by cause, against N.
func (s service) leaderless() part {
	p := part{Beside: s.beside(), Picture: picture{name: "leaderless-" + s.slug, title: "Time without a leader, by number of candidates", Class: "large",
		Caption: "Marks are medians. Whiskers reach up to p99, or to the longest of fewer than 100, with a tick at p90, of 10 or more. " +
			"Both axes are logarithmic; strategies are drawn a little aside of one another."}}
	var without []string
	for _, kind := range []struct {
		title, missing string
		of             func(report.Run) report.Quantiles
	}{
		{"After a resignation", "No leader resigned in these runs.", func(r report.Run) report.Quantiles { return r.Resigned.Quantiles }},
		{"After a crash", "No leader crashed in these runs.", func(r report.Run) report.Quantiles { return r.Crashed.Quantiles }},
	} {
		samples := s.times(&p, kind.title+", without a leader for", kind.missing, kind.of)
		f := figure{title: kind.title, note: "time without a leader; " + samples + " a mark", format: span,
			of: func(r report.Run) point { return timed(kind.of(r)) }}
		if samples != "" && !s.draw(&p, f) {
			without = append(without, strings.ToLower(f.title))
		}
	}
	p.Missing = append(p.Missing, s.undrawn(without)...)
	p.Notes = unnoticed(s.runs)
	return p
}

// unnoticed says how long crashes went unnoticed, if any.
func unnoticed(runs []report.Run) []string {
	var medians []time.Duration
	var longest time.Duration
	for _, run := range runs {
		if q := run.Unnoticed; q.N > 0 {
			medians, longest = append(medians, q.P50), max(longest, q.Max)
		}
	}
	if longest == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Before that the service had to notice the crash and to drop the leader’s entry, in which no strategy has a say: that took %s (the runs’ medians), at most %s.",
		durations(slices.Min(medians), slices.Max(medians)), duration(longest))}
}

// enough is the number of samples from which a mark is drawn. Lines through fewer show chance.
const enough = 5

// timed returns the point of a strategy's quantiles, where there are enough samples.
func timed(q report.Quantiles) point {
	if q.N < enough {
		return point{}
	}
	p := point{mid: float64(q.P50), top: float64(q.Max)}
	if q.Tells(90) {
		p.p90 = float64(q.P90)
	}
	if q.Tells(99) {
		p.top = float64(q.P99)
	}
	return p
}

// costs are the costs of a leader change.
var costs = []figure{
	{"wakeUps", "Wake-ups", "per leader change", count, func(r report.Run) point { return point{mid: r.PerChange.WakeUps} }},
	{"operations", "Operations", "per leader change", count, func(r report.Run) point { return point{mid: r.PerChange.Operations} }},
	{"bytes", "Bytes", "keys and values per leader change", size, func(r report.Run) point { return point{mid: r.PerChange.Bytes} }},
}

// grown returns how a figure of a strategy grows, if the report has that.
func (s service) grown(strategy, figure string) (report.Growth, bool) {
	i := slices.IndexFunc(s.Growth, func(g report.Growth) bool {
		return g.Service == s.name && g.Strategy == strategy && g.Figure == figure
	})
	if i < 0 {
		return report.Growth{}, false
	}
	return s.Growth[i], true
}

// slope formats what each further candidate adds.
func slope(g report.Growth, format func(float64) string) string {
	if math.Abs(g.Slope) < 0.005 { // rounding errors
		g.Slope = 0
	}
	return signed(format(g.Slope))
}

// cost shows the costs of a leader change, against N.
func (s service) cost() part {
	p := part{Picture: picture{name: "cost-" + s.slug, title: "What a leader change costs, by number of candidates", Class: "wide",
		Caption: "Beside each name stands what every further candidate adds, if that is more than noise: the slope of the straight line through the figures."}}
	var without []string
	for _, f := range costs {
		if !s.draw(&p, f) {
			without = append(without, strings.ToLower(f.title))
		}
		p.Tables = append(p.Tables, s.pivot(f.title+" per leader change.", func(r report.Run) cell { return cell{f.format(f.of(r).mid)} }))
	}
	p.Missing = s.undrawn(without)
	if growth := s.growth(); len(growth.Rows) > 0 {
		p.Tables = append(p.Tables, growth)
	}
	p.Tables = append(p.Tables, s.details()...)
	// Why a service did not count, each reason once.
	for _, run := range s.runs {
		if note := "There are no figures of the service’s own: " + run.ServerNote; run.ServerNote != "" && !slices.Contains(p.Notes, note) {
			p.Notes = append(p.Notes, note)
		}
	}
	return p
}

// growth returns a table of how figures grow with N.
func (s service) growth() table {
	t := table{Caption: "Growth with N. What each further candidate adds; below it the exponent (0 is constant, 1 is linear, 2 is quadratic) and R² of the straight line. A dash stands where growth cannot be told from noise: from the fewest candidates to the most the count changes by less than 5\u00a0%; of the times " +
		// They are not report.Apart:
		"the medians differ by less than a fifth, or nine in ten of the shorter ones are not below the median of the others, or there are fewer than 10."}
	figures := append(slices.Clone(costs), figure{name: "leaderless", title: "Time without a leader", format: span})
	for _, f := range figures {
		t.Head = append(t.Head, strings.ToLower(f.title))
	}
	for _, strategy := range s.order {
		r, found := row{Swatch: s.swatch(strategy), Name: strategy}, false
		for _, f := range figures {
			c := cell{none}
			g, ok := s.grown(strategy, f.name)
			if ok && !g.Flat {
				c = cell{slope(g, f.format), "N^" + index(g.Exponent), "R² " + index(g.R2)}
			}
			found = found || ok
			r.Cells = append(r.Cells, c)
		}
		if found {
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// details returns tables of all counts, at the most candidates.
func (s service) details() []table {
	n := slices.Max(sizes(s.runs))
	runs := s.at(n, func(report.Run) bool { return true })
	head := []string{"wake-ups", "operations", "writes", "in vain", "watches set", "bytes"}
	cells := func(c report.Cost) []cell {
		return plain(count(c.WakeUps), count(c.Operations), count(c.Writes), count(c.Refused), count(c.Watches), size(c.Bytes))
	}
	at := fmt.Sprintf(" with N"+nbsp+"= %s, over all candidates.", count(float64(n)))
	tables := []table{
		s.perStrategy("One leader change"+at, head, runs, func(r report.Run) []cell { return cells(r.PerChange) }),
		s.perStrategy("One candidate’s joining"+at, head, runs, func(r report.Run) []cell { return cells(r.PerJoin) }),
	}
	counted := make(map[string]float64)
	for _, run := range runs {
		maps.Copy(counted, run.Server)
	}
	if keys := slices.Sorted(maps.Keys(counted)); len(keys) > 0 {
		tables = append(tables, s.perStrategy("What the service itself counted per resignation"+at, keys, runs, func(r report.Run) (all []cell) {
			for _, key := range keys {
				c := cell{none}
				if value, ok := r.Server[key]; ok {
					c = cell{count(value)}
				}
				all = append(all, c)
			}
			return all
		}))
	}
	return tables
}
