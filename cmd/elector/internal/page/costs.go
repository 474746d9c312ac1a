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

// leaderless shows the time without a leader, by cause, against N.
func (v view) leaderless(svc service) part {
	p := part{Beside: beside(svc.runs)}
	pic := picture{name: "leaderless-" + svc.slug, title: "Time without a leader, by number of candidates", columns: 2, Class: "large",
		Caption: "Marks are medians. Whiskers reach up to p99, or to the longest of fewer than 100, with a tick at p90, of 10 or more. " +
			"Both axes are logarithmic; strategies are drawn a little aside of one another."}
	for _, kind := range []struct {
		title, missing string
		of             func(report.Run) report.Quantiles
	}{
		{"After a resignation", "No leader resigned in these runs.", func(r report.Run) report.Quantiles { return r.Resigned.Quantiles }},
		{"After a crash", "No leader crashed in these runs.", func(r report.Run) report.Quantiles { return r.Crashed.Quantiles }},
	} {
		all := each(svc.runs, kind.of)
		if _, most := samples(all); most == 0 {
			p.Missing = append(p.Missing, kind.missing)
			continue
		}
		v.add(&p, &pic, kind.title, "time without a leader; "+sampled(all)+" a mark", span,
			func(strategy string) curve { return curve{strategy, strategy, timed(svc.runs, strategy, kind.of)} })
		p.Tables = append(p.Tables, v.pivot(quantilesCaption(kind.title+", without a leader for", all), svc.runs,
			func(r report.Run) cell { return quantiles(kind.of(r)) }))
	}
	if note := unnoticed(svc.runs); note != "" {
		p.Notes = append(p.Notes, note)
	}
	p.show(pic)
	return p
}

// notApart describes times that are not report.Apart.
const notApart = "the medians differ by less than a fifth, or nine in ten of the shorter ones are not below the median of the others, or there are fewer than 10"

// beside reports whether tables with a column for each N are narrow.
func beside(runs []report.Run) bool { return len(sizes(runs)) <= 4 }

// unnoticed says how long crashes went unnoticed, or "".
func unnoticed(runs []report.Run) string {
	var low, high, longest time.Duration
	for _, run := range runs {
		if q := run.Unnoticed; q.N > 0 {
			if low == 0 || q.P50 < low {
				low = q.P50
			}
			high, longest = max(high, q.P50), max(longest, q.Max)
		}
	}
	if longest == 0 {
		return ""
	}
	return fmt.Sprintf("Before that the service had to notice the crash and to drop the leader’s entry, in which no strategy has a say: that took %s (the runs’ medians), at most %s.", durations(low, high), duration(longest))
}

// enough is the number of samples from which a mark is drawn. Lines through fewer show chance.
const enough = 5

// timed returns a strategy's quantiles against N, where there are enough samples.
func timed(runs []report.Run, strategy string, of func(report.Run) report.Quantiles) []point {
	var out []point
	for _, n := range sizes(runs) {
		if run, ok := find(runs, strategy, n); ok && of(run).N >= enough {
			q := of(run)
			p := point{n: n, mid: float64(q.P50), top: float64(q.Max)}
			if q.Tells(90) {
				p.p90 = float64(q.P90)
			}
			if q.Tells(99) {
				p.top = float64(q.P99)
			}
			out = append(out, p)
		}
	}
	return out
}

// add adds a panel with a curve for each strategy, or a sentence why there is none.
func (v view) add(p *part, pic *picture, title, note string, format func(float64) string, of func(strategy string) curve) {
	var curves []curve
	lines := false
	for _, strategy := range v.order {
		c := of(strategy)
		// A logarithmic axis cannot show the others.
		c.points = slices.DeleteFunc(c.points, func(p point) bool { return !(p.mid > 0) || p.n < 1 })
		if len(c.points) > 0 {
			curves = append(curves, c)
			lines = lines || c.points[0].n != c.points[len(c.points)-1].n
		}
	}
	if !lines {
		p.Missing = append(p.Missing, title+": there is no curve to draw, because no strategy has figures above 0 for more than one N. Of fewer than five times none is drawn.")
		return
	}
	desc := strings.ToUpper(note[:1]) + note[1:] + " against the number of candidates."
	for _, c := range curves {
		first, last := c.points[0], c.points[len(c.points)-1]
		desc += fmt.Sprintf(" %s: %s at N = %s, %s at N = %s.", c.strategy, format(first.mid), count(float64(first.n)), format(last.mid), count(float64(last.n)))
	}
	pic.panels = append(pic.panels, panel{title: title, note: note, desc: desc, width: 360, tall: 310, draw: scaling(curves, v.looks, format)})
}

// costs are the costs of a leader change, by the names of report.Growth.
var costs = []struct {
	name, title, note string
	of                func(report.Cost) float64
	format            func(float64) string
}{
	{"wakeUps", "Wake-ups", "per leader change", func(c report.Cost) float64 { return c.WakeUps }, count},
	{"operations", "Operations", "per leader change", func(c report.Cost) float64 { return c.Operations }, count},
	{"bytes", "Bytes", "keys and values per leader change", func(c report.Cost) float64 { return c.Bytes }, size},
}

// grown returns how a figure of a strategy grows, if the report has that.
func (svc service) grown(strategy, figure string) (report.Growth, bool) {
	i := slices.IndexFunc(svc.growth, func(g report.Growth) bool { return g.Strategy == strategy && g.Figure == figure })
	if i < 0 {
		return report.Growth{}, false
	}
	return svc.growth[i], true
}

// slope formats what each further candidate adds.
func slope(g report.Growth, format func(float64) string) string {
	if math.Abs(g.Slope) < 0.005 { // rounding errors
		g.Slope = 0
	}
	return signed(format(g.Slope))
}

// cost shows the costs of a leader change, against N.
func (v view) cost(svc service) (p part) {
	pic := picture{name: "cost-" + svc.slug, title: "What a leader change costs, by number of candidates", columns: 3, Class: "wide",
		Caption: "Beside each name stands what every further candidate adds, if that is more than noise: the slope of the straight line through the figures."}
	for _, f := range costs {
		v.add(&p, &pic, f.title, f.note, f.format, func(strategy string) curve {
			c := curve{strategy: strategy, label: strategy}
			if g, ok := svc.grown(strategy, f.name); ok && !g.Flat {
				c.label += " " + slope(g, f.format)
			}
			for _, n := range sizes(svc.runs) {
				if run, ok := find(svc.runs, strategy, n); ok {
					c.points = append(c.points, point{n: n, mid: f.of(run.PerChange)})
				}
			}
			return c
		})
		p.Tables = append(p.Tables, v.pivot(f.title+" per leader change.", svc.runs, func(r report.Run) cell { return cell{Main: f.format(f.of(r.PerChange))} }))
	}
	p.show(pic)
	if len(svc.growth) > 0 {
		p.Tables = append(p.Tables, v.growth(svc))
	}
	p.Tables = append(p.Tables, v.details(svc)...)
	p.Notes = serverNotes(svc.runs)
	return p
}

// serverNotes say why a service did not count, each reason once.
func serverNotes(runs []report.Run) []string {
	var out []string
	for _, run := range runs {
		if note := "There are no figures of the service’s own: " + run.ServerNote; run.ServerNote != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// growth returns a table of how figures grow with N.
func (v view) growth(svc service) table {
	t := table{Caption: "Growth with N. What each further candidate adds; below it the exponent (0 is constant, 1 is linear, 2 is quadratic) and R² of the straight line. A dash stands where growth cannot be told from noise: from the fewest candidates to the most the count changes by less than 5\u00a0%; of the times " + notApart + ".",
		Head: []string{"Strategy", "wake-ups", "operations", "bytes", "time without a leader"}}
	names := []string{"wakeUps", "operations", "bytes", "leaderless"}
	formats := []func(float64) string{count, count, size, span}
	for _, strategy := range v.order {
		r, found := row{Swatch: v.swatch(strategy), Name: strategy}, false
		for i, name := range names {
			c := cell{Main: none}
			g, ok := svc.grown(strategy, name)
			if ok && !g.Flat {
				c = cell{slope(g, formats[i]), []string{"N^" + index(g.Exponent), "R² " + index(g.R2)}}
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
func (v view) details(svc service) []table {
	ns := sizes(svc.runs)
	n := ns[len(ns)-1]
	runs := v.at(svc.runs, n, func(report.Run) bool { return true })
	head := []string{"wake-ups", "operations", "writes", "in vain", "watches set", "bytes"}
	cells := func(c report.Cost) []cell {
		return plain(count(c.WakeUps), count(c.Operations), count(c.Writes), count(c.Refused), count(c.Watches), size(c.Bytes))
	}
	at := fmt.Sprintf(" with N = %s, over all candidates.", count(float64(n)))
	tables := []table{
		v.perStrategy("One leader change"+at, head, runs, func(r report.Run) []cell { return cells(r.PerChange) }),
		v.perStrategy("One candidate’s joining"+at, head, runs, func(r report.Run) []cell { return cells(r.PerJoin) }),
	}
	counted := make(map[string]float64)
	for _, run := range runs {
		maps.Copy(counted, run.Server)
	}
	if keys := slices.Sorted(maps.Keys(counted)); len(keys) > 0 {
		tables = append(tables, v.perStrategy("What the service itself counted per resignation"+at, keys, runs, func(r report.Run) (all []cell) {
			for _, key := range keys {
				c := cell{Main: none}
				if value, ok := r.Server[key]; ok {
					c.Main = count(value)
				}
				all = append(all, c)
			}
			return all
		}))
	}
	return tables
}
