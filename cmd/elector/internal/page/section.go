package page

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A section answers one question, service by service.
type section struct {
	ID, Title, Intro string
	of               func(view, service) part
	Parts            []part
}

// sections returns the sections of a report that has anything.
func sections(r report.Report) []section {
	if len(r.Runs) == 0 {
		return nil
	}
	all := []section{
		{ID: "glance", Title: "At a glance", of: view.glance,
			Intro: "Means over all candidates, per leader change; times are medians. Order kept is 100\u00a0% less the inversions: 100\u00a0% is strict order of arrival, about 50\u00a0% is chance."},
		{ID: "change", Title: "One leader change, watched closely", of: view.change,
			Intro: "Each row is a candidate, in the order of arrival. Where many rings stand above one another, the service has woken a herd: all are told, and one will lead."},
		{ID: "leaderless", Title: "Time without a leader", of: view.leaderless,
			Intro: "From the end of a term’s hold on the seat until the next campaign has returned: of a resignation from the call, of a crash from the instant at which the service dropped the leader’s entry."},
		{ID: "cost", Title: "What a leader change costs", of: view.cost,
			Intro: "All that candidates were told and asked of the service, over all candidates, from the change until all is still, the old leader’s return included. A wake-up is a notice to a candidate that something it watches has changed."},
		{ID: "fairness", Title: "Who is elected", of: view.fairness,
			Intro: "How often each candidate was elected. Jain’s index, over those who were there all the time, is 1 when all won equally often, and 1/N when one won all; with fewer leader changes than candidates it cannot come near 1."},
		{ID: "waiting", Title: "How long a candidate waits", of: view.waiting,
			Intro: "From a candidate’s arrival to its election. A steep line means that all wait about equally long; a long foot and head mean that some are lucky and others are not."},
	}
	v := view{newPalette(r), r}
	for _, svc := range services(r) {
		for i := range all {
			p := all[i].of(v, svc)
			p.Heading = svc.name
			all[i].Parts = append(all[i].Parts, p)
		}
	}
	return all
}

// A part is a section's content for one service: pictures with the figures beside them, notes, and sentences
// for what is missing.
type part struct {
	Heading  string
	Beside   bool // the tables are narrow enough to be beside the pictures of a wide page
	Pictures []picture
	Notes    []string
	Missing  []string
	Tables   []table
}

// A table has a row for each strategy.
type table struct {
	Caption string
	Head    []string
	Rows    []row
}

type row struct {
	Swatch template.HTML // how the strategy is drawn
	Name   string
	Cells  []cell
}

// A cell has a figure, and below it others, each on its own line.
type cell struct {
	Main string
	Sub  []string
}

// show adds a picture, if there is anything in it.
func (p *part) show(pic picture) {
	if len(pic.panels) > 0 {
		p.Pictures = append(p.Pictures, pic)
	}
}

// plain returns cells with one figure each.
func plain(figures ...string) (all []cell) {
	for _, figure := range figures {
		all = append(all, cell{Main: figure})
	}
	return all
}

// none is shown for a missing figure.
const none = "–"

// A service is a report's content about one service.
type service struct {
	name   string
	slug   string // for file names and ids
	runs   []report.Run
	growth []report.Growth
}

// services returns the services of a report, in its order.
func services(r report.Report) (all []service) {
	for _, run := range r.Runs {
		i := slices.IndexFunc(all, func(s service) bool { return s.name == run.Service })
		if i < 0 {
			i = len(all)
			all = append(all, service{name: run.Service, slug: slug(run.Service, all),
				growth: slices.DeleteFunc(slices.Clone(r.Growth), func(g report.Growth) bool { return g.Service != run.Service })})
		}
		all[i].runs = append(all[i].runs, run)
	}
	return all
}

// slug returns the service's kind, its URL's scheme, with a number if it is not the first of its kind.
func slug(name string, others []service) string {
	kind, _, _ := strings.Cut(name, ":")
	kind = cmp.Or(notInSlugs.ReplaceAllString(strings.ToLower(kind), ""), "service")
	same := 0
	for _, o := range others {
		if o.slug == kind || strings.HasPrefix(o.slug, kind+"-") {
			same++
		}
	}
	if same > 0 {
		kind += "-" + strconv.Itoa(same+1)
	}
	return kind
}

var notInSlugs = regexp.MustCompile(`[^a-z0-9]`)

// sizes returns the numbers of candidates of the runs, rising.
func sizes(runs []report.Run) []int {
	var ns []int
	for _, run := range runs {
		ns = append(ns, run.N)
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// find returns the run of a strategy with n candidates.
func find(runs []report.Run, strategy string, n int) (report.Run, bool) {
	i := slices.IndexFunc(runs, func(r report.Run) bool { return r.Strategy == strategy && r.N == n })
	if i < 0 {
		return report.Run{}, false
	}
	return runs[i], true
}

// few is how many candidates a picture can show distinctly.
const few = 60

// most returns the runs, one per strategy in the palette's order, of the N at which most strategies satisfy
// has; of several such N the largest that is not over limit, or the smallest if all are.
func (v view) most(runs []report.Run, limit int, has func(report.Run) bool) []report.Run {
	var best []report.Run
	for _, n := range sizes(runs) {
		at := v.at(runs, n, has)
		if len(at) > len(best) || len(at) == len(best) && len(at) > 0 && n <= limit {
			best = at
		}
	}
	return best
}

// at returns the runs with n candidates that satisfy has, one per strategy in the palette's order.
func (v view) at(runs []report.Run, n int, has func(report.Run) bool) (at []report.Run) {
	for _, strategy := range v.order {
		if run, ok := find(runs, strategy, n); ok && has(run) {
			at = append(at, run)
		}
	}
	return at
}

// partly notes that a picture shows fewer candidates than the tables, or returns "".
func partly(svc service, n int) string {
	ns := sizes(svc.runs)
	most := ns[len(ns)-1]
	if n == most {
		return ""
	}
	return fmt.Sprintf(" This is a part of what was tried: the tables go up to %s, which could not be told apart here.", plural(most, "candidate", "candidates"))
}

// view is the input of all sections.
type view struct {
	palette
	report report.Report
}

// perStrategy returns a table with a row for each strategy that has a run.
func (v view) perStrategy(caption string, head []string, runs []report.Run, cells func(report.Run) []cell) table {
	t := table{Caption: caption, Head: append([]string{"Strategy"}, head...)}
	for _, run := range runs {
		r := row{Swatch: v.swatch(run.Strategy), Name: run.Strategy + dagger(run)}
		if run.Empty() {
			r.Cells = plain(slices.Repeat([]string{none}, len(head))...)
		} else {
			r.Cells = cells(run)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// pivot returns a table of one figure: a row for each strategy, a column for each N.
func (v view) pivot(caption string, runs []report.Run, figure func(report.Run) cell) table {
	t := table{Caption: caption, Head: []string{"Strategy"}}
	ns := sizes(runs)
	for _, n := range ns {
		t.Head = append(t.Head, "N"+nbsp+"= "+count(float64(n)))
	}
	for _, strategy := range v.order {
		if !slices.ContainsFunc(runs, func(r report.Run) bool { return r.Strategy == strategy }) {
			continue
		}
		r := row{Swatch: v.swatch(strategy), Name: strategy}
		for _, n := range ns {
			c := cell{Main: none}
			if run, ok := find(runs, strategy, n); ok && run.Empty() {
				c.Main += dagger(run)
			} else if ok {
				if c = figure(run); c.Main != none {
					c.Main += dagger(run)
				}
			}
			r.Cells = append(r.Cells, c)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

func dagger(run report.Run) string {
	if run.Truncated != "" {
		return " †"
	}
	return ""
}

// swatch shows how a strategy is drawn.
func (v view) swatch(strategy string) template.HTML {
	c, l := new(canvas), v.looks[strategy]
	c.stroke(l.line(), along(place{0, 6}, place{30, 6}))
	c.mark(l.shape, l.ink, place{15, 6}, 3.6)
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
	c := cell{Main: median(q)}
	if !q.Tells(50) {
		return c
	}
	if q.Tells(90) {
		c.Sub = append(c.Sub, "p90 "+duration(q.P90))
	}
	if q.Tells(99) {
		c.Sub = append(c.Sub, "p99 "+duration(q.P99))
	}
	c.Sub = append(c.Sub, "max "+duration(q.Max))
	return c
}

// quantilesCaption describes the content of such cells.
func quantilesCaption(what string, all []report.Quantiles) string {
	_, n := samples(all)
	below, most := "the longest", report.Quantiles{N: n}
	switch {
	case n == 1:
		return what + ". There is one of each."
	case most.Tells(99):
		below = "p90 (of 10 or more), p99 (of 100 or more) and the longest"
	case most.Tells(90):
		below = "p90 (of 10 or more) and the longest"
	}
	return what + ": the median of " + sampled(all) + "; below it " + below + "."
}

// samples returns the fewest samples of a run that has any, and the most.
func samples(all []report.Quantiles) (fewest, most int) {
	for _, q := range all {
		if q.N > 0 && (fewest == 0 || q.N < fewest) {
			fewest = q.N
		}
		most = max(most, q.N)
	}
	return fewest, most
}

// sampled says how many samples each run has.
func sampled(all []report.Quantiles) string {
	fewest, most := samples(all)
	return extent(fewest, most, "sample", "samples")
}

// each returns the same quantiles of all runs.
func each(runs []report.Run, of func(report.Run) report.Quantiles) (all []report.Quantiles) {
	for _, run := range runs {
		all = append(all, of(run))
	}
	return all
}
