package page

import (
	"slices"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A reign is one candidate's term within a timeline.
type reign struct {
	candidate int
	from, to  time.Duration
}

// reigns returns the terms that ended or began. One that existed before starts at the left edge, and one that
// continues ends at the right edge.
func reigns(events []report.Event, left, right time.Duration) (all []reign) {
	for _, e := range events {
		i := slices.IndexFunc(all, func(r reign) bool { return r.candidate == e.Candidate && r.to == right })
		switch {
		case e.Kind == report.Elected:
			all = append(all, reign{e.Candidate, e.At + e.Took, right})
		case e.Kind == report.Ended && i >= 0:
			all[i].to = e.At
		case e.Kind == report.Ended:
			all = slices.Insert(all, 0, reign{e.Candidate, left, e.At})
		}
	}
	return all
}

// vacancy returns the first end of a term and the first election after it; 0 and 0 if the timeline does not
// have both.
func vacancy(events []report.Event) (from, to time.Duration) {
	ended := slices.IndexFunc(events, func(e report.Event) bool { return e.Kind == report.Ended })
	elected := slices.IndexFunc(events, func(e report.Event) bool { return e.Kind == report.Elected })
	if elected < 0 {
		return 0, 0
	}
	if ended >= 0 {
		from = events[ended].At
	} // else: the leader crashed, at 0, and told nobody
	return from, max(from, events[elected].At+events[elected].Took)
}

// timeline draws one leader change: candidates downwards, time to the right. All panels share one time axis.
func timeline(i ink, events []report.Event, candidates int, from, until time.Duration) drawing {
	return func(c *canvas, b box) {
		rows := float64(candidates)
		p := c.axes(b.inset(0, 2, 16, 14), axis{low: float64(from), high: float64(until), ticks: every(roundStep(float64(until)/4), float64(until), span)},
			axis{low: rows - 0.3, high: -0.7, ticks: every(max(1, roundStep(rows/8)), rows-1, count)}, false, "since the change began")
		at := func(d time.Duration) float64 { return p.x(float64(min(d, until))) }
		row := (p.bottom - p.top) / rows

		if from, to := vacancy(events); to > from {
			c.fill(inkGap, box{at(from), p.top, at(to), p.bottom}.around())
		}
		if row >= 4 {
			for n := range candidates {
				c.stroke(pen{ink: inkGrid, width: 0.6}, along(place{p.left, p.y(float64(n))}, place{p.right, p.y(float64(n))}))
			}
		}
		thick := min(max(row*0.62, 3), 9)
		for _, term := range reigns(events, from, until) {
			middle := p.y(float64(term.candidate))
			c.fill(i, box{at(term.from), middle - thick/2, max(at(term.to), at(term.from)+1.5), middle + thick/2}.around())
		}
		radius := min(max(row*0.36, 1.5), 3.2)
		for _, e := range events {
			if e.At <= until { // else the axis is cut
				c.event(i, e.Kind, at(e.At), at(e.At+e.Took), p.y(float64(e.Candidate)), radius)
			}
		}
	}
}

// event draws an event between two places: a ring for a wake-up, and a thin line that ends with a dot for a
// read, a triangle for a write, and a cross for a write in vain.
func (c *canvas) event(i ink, kind report.EventKind, from, to, y, radius float64) {
	end := place{to, y}
	took := func(i ink) {
		if to > from {
			c.stroke(pen{ink: i, width: 0.8}, along(place{from, y}, end))
		}
	}
	switch kind {
	case report.WokenUp:
		c.mark(disc, inkPaper, place{from, y}, radius)
		c.stroke(pen{ink: i, width: 1.1}, circle(place{from, y}, radius))
	case report.Read:
		took(inkMuted)
		c.mark(disc, inkMuted, end, radius*0.6)
	case report.Wrote:
		took(inkText)
		c.mark(triangle, inkText, end, radius*1.1)
	case report.Refused:
		took(inkAlert)
		c.cross(pen{ink: inkAlert, width: 1.3}, end, radius*0.9)
	}
}

// timelineKey explains the marks, one panel for each.
func timelineKey() []panel {
	item := func(name string, symbol float64, mark func(c *canvas, x, y float64)) panel {
		return panel{title: name, desc: "What this mark means.", width: symbol + labels.width(name) + 8, tall: 18,
			draw: func(c *canvas, b box) {
				y := (b.top + b.bottom) / 2
				mark(c, b.left+1, y)
				c.text(labels, toTheRight, place{b.left + symbol + 5, y + middle}, name)
			}}
	}
	block := func(i ink, width, height float64) func(c *canvas, x, y float64) {
		return func(c *canvas, x, y float64) { c.fill(i, area(x, y-height/2, width, height).around()) }
	}
	event := func(kind report.EventKind, long float64) func(c *canvas, x, y float64) {
		return func(c *canvas, x, y float64) { c.event(inkText, kind, x+3, x+3+long, y, 3) }
	}
	return []panel{
		item("a term", 19, block(inkText, 18, 7)), item("no leader", 15, block(inkGap, 14, 14)),
		item("woken up", 8, event(report.WokenUp, 0)), item("read", 17, event(report.Read, 11)),
		item("write", 19, event(report.Wrote, 11)), item("write in vain", 19, event(report.Refused, 11)),
	}
}
