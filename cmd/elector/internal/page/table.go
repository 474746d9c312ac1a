package page

import (
	"html/template"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A table has a row for each strategy.
type table struct {
	Caption string
	Head    []string // above the cells
	Rows    []row
}

type row struct {
	Swatch template.HTML // how the strategy is drawn
	Name   string
	Cells  []cell
}

// A cell has a figure, and below it others, each on its own line.
type cell []string

// plain returns cells with one figure each.
func plain(figures ...string) (all []cell) {
	for _, figure := range figures {
		all = append(all, cell{figure})
	}
	return all
}

// none is shown for a missing figure.
const none = "–"

func dagger(run report.Run) string {
	if run.Truncated != "" {
		return " †"
	}
	return ""
}

// perStrategy returns a table with a row for each of the runs, one per strategy.
func (v view) perStrategy(caption string, head []string, runs []report.Run, cells func(report.Run) []cell) table {
	t := table{Caption: caption, Head: head}
	for _, run := range runs {
		r := row{v.swatch(run.Strategy), run.Strategy + dagger(run), plain(slices.Repeat([]string{none}, len(head))...)}
		if !run.Empty() {
			r.Cells = cells(run)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// pivot returns a table of one figure: a row for each strategy, a column for each N.
func (s service) pivot(caption string, figure func(report.Run) cell) table {
	t := table{Caption: caption}
	ns := sizes(s.runs)
	for _, n := range ns {
		t.Head = append(t.Head, "N"+nbsp+"= "+count(float64(n)))
	}
	for _, strategy := range strategies(s.runs) {
		r := row{Swatch: s.swatch(strategy), Name: strategy}
		for _, n := range ns {
			c := cell{none}
			run, ok := s.find(strategy, n)
			if ok && !run.Empty() {
				c = figure(run)
			}
			if c[0] != none || run.Empty() {
				c[0] += dagger(run)
			}
			r.Cells = append(r.Cells, c)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// swatch shows how a strategy is drawn.
func (v view) swatch(strategy string) template.HTML {
	c := new(canvas)
	c.specimen(v.looks[strategy], place{15, 6}, 15, 3.6)
	c.flush()
	return template.HTML(`<svg class="swatch" aria-hidden="true" viewBox="0 0 30 12" width="30" height="12">` + c.body.String() + `</svg>`)
}

// median formats the median, if there is one.
func median(q report.Quantiles) string {
	if q.N == 0 {
		return none
	}
	return duration(q.P50)
}

// quantiles returns a cell with the median, and below it the other quantiles with enough samples.
func quantiles(q report.Quantiles) cell {
	c := cell{median(q)}
	if q.Tells(90) {
		c = append(c, "p90 "+duration(q.P90))
	}
	if q.Tells(99) {
		c = append(c, "p99 "+duration(q.P99))
	}
	if q.Tells(50) {
		c = append(c, "max "+duration(q.Max))
	}
	return c
}

// times adds a table of quantiles to a part, or what it is missing. It returns how many samples each run has,
// "" if none has any.
func (s service) times(p *part, what, missing string, of func(report.Run) report.Quantiles) (samples string) {
	var ns []int // of the runs that have any
	for _, run := range s.runs {
		if n := of(run).N; n > 0 {
			ns = append(ns, n)
		}
	}
	if len(ns) == 0 {
		p.Missing = append(p.Missing, missing)
		return ""
	}
	most := report.Quantiles{N: slices.Max(ns)}
	samples = extent(slices.Min(ns), most.N, "sample")
	below := "the longest"
	switch {
	case most.Tells(99):
		below = "p90 (of 10 or more), p99 (of 100 or more) and the longest"
	case most.Tells(90):
		below = "p90 (of 10 or more) and the longest"
	}
	caption := what + ": the median of " + samples + "; below it " + below + "."
	if most.N == 1 {
		caption = what + ". There is one of each."
	}
	p.Tables = append(p.Tables, s.pivot(caption, func(r report.Run) cell { return quantiles(of(r)) }))
	return samples
}
