package page

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// timeline is a panel of one leader change: candidates downwards, time to the right.
type timeline struct {
	look       look
	events     []report.Event
	candidates int
	// The ends of the time axis, of all panels: they have one scale.
	from, until time.Duration
}

// A reign is one candidate's term within a timeline.
type reign struct {
	candidate int
	from, to  time.Duration
}

// reigns are the terms that ended or began. One that was there from the beginning is from
// the left edge, one that goes on is until the right one.
func reigns(events []report.Event, left, right time.Duration) []reign {
	var out []reign
	open := make(map[int]time.Duration)
	for _, e := range events {
		switch e.Kind {
		case report.Elected:
			open[e.Candidate] = e.At + e.Took
		case report.Ended:
			from, ok := open[e.Candidate]
			if !ok {
				from = left
			}
			delete(open, e.Candidate)
			out = append(out, reign{e.Candidate, from, e.At})
		}
	}
	for candidate, from := range open {
		out = append(out, reign{candidate, from, right})
	}
	slices.SortFunc(out, func(a, b reign) int { return cmp.Compare(a.from, b.from) })
	return out
}

// vacancy is from the first end of a term to the first election after it; 0 and 0 if
// the timeline does not have both.
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

func (t timeline) draw(c draw.Canvas) {
	p := newPlot()
	p.X.Min, p.X.Max = float64(t.from), float64(t.until)
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.Y.Min, p.Y.Max = -0.7, float64(t.candidates)-0.3
	p.Y.Tick.Marker = orderTicks(t.candidates, 8)
	p.Add(t)
	area := draw.Crop(c, 0, -16, 14, -2)
	p.X.Tick.Marker = thin(linearTicks(4, span), p.X.Scale, dataWidth(p, area))
	p.Draw(area)
	c.FillText(textStyle(labelSize, inkMuted, false, draw.XRight, draw.YBottom),
		vg.Point{X: area.Max.X, Y: c.Min.Y + 3}, "since the change began")
}

func (t timeline) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := func(d time.Duration) vg.Length { return x(math.Min(float64(d), p.X.Max)) }
	row := (c.Max.Y - c.Min.Y) / vg.Length(t.candidates)

	if from, to := vacancy(t.events); to > from {
		c.SetColor(inkGap)
		c.Fill(vg.Rectangle{Min: vg.Point{X: at(from), Y: c.Min.Y}, Max: vg.Point{X: at(to), Y: c.Max.Y}}.Path())
	}
	if row >= 4 {
		for i := range t.candidates {
			c.StrokeLine2(draw.LineStyle{Color: inkGrid, Width: 0.6}, c.Min.X, y(float64(i)), c.Max.X, y(float64(i)))
		}
	}
	thick := min(max(row*0.62, 3), 9)
	for _, term := range reigns(t.events, t.from, t.until) {
		c.SetColor(t.look.ink)
		middle := y(float64(term.candidate))
		c.Fill(vg.Rectangle{
			Min: vg.Point{X: at(term.from), Y: middle - thick/2},
			Max: vg.Point{X: max(at(term.to), at(term.from)+1.5), Y: middle + thick/2},
		}.Path())
	}
	radius := min(max(row*0.36, 1.5), 3.2)
	for _, e := range t.events {
		if e.At > t.until {
			continue // the axis is cut
		}
		eventMark(c, t.look.ink, e.Kind, at(e.At), at(e.At+e.Took), y(float64(e.Candidate)), radius)
	}
}

// eventMark draws what happened from one place to another: a ring for a wake-up, and a
// thin line that ends with a dot for a read, a triangle for a write, a cross for a write
// in vain.
func eventMark(c draw.Canvas, col ink, kind report.EventKind, from, to, y, radius vg.Length) {
	end := vg.Point{X: to, Y: y}
	glyph := func(col ink, shape draw.GlyphDrawer, radius vg.Length) {
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: col, Shape: shape, Radius: radius}, end)
	}
	took := func(col ink) {
		if to > from {
			c.StrokeLine2(draw.LineStyle{Color: col, Width: 0.8}, from, y, to, y)
		}
	}
	switch kind {
	case report.WokenUp:
		end.X = from
		glyph(inkPaper, disc{}, radius)
		c.SetLineStyle(draw.LineStyle{Color: col, Width: 1.1})
		var p vg.Path
		p.Move(vg.Point{X: end.X + radius, Y: y})
		p.Arc(end, radius, 0, 2*math.Pi)
		p.Close()
		c.Stroke(p)
	case report.Read:
		took(inkMuted)
		glyph(inkMuted, disc{}, radius*0.6)
	case report.Wrote:
		took(inkText)
		glyph(inkText, triangle{}, radius*1.1)
	case report.Refused:
		took(inkAlert)
		c.SetLineStyle(draw.LineStyle{Color: inkAlert, Width: 1.3})
		var p vg.Path
		for _, s := range []vg.Length{1, -1} {
			p.Move(vg.Point{X: end.X - radius*0.9, Y: y - s*radius*0.9})
			p.Line(vg.Point{X: end.X + radius*0.9, Y: y + s*radius*0.9})
		}
		c.Stroke(p)
	}
}

// timelineKey says what the marks are, one panel for each.
func timelineKey() []panel {
	item := func(name string, symbol vg.Length, mark func(c draw.Canvas, x, y vg.Length)) panel {
		style := textStyle(labelSize, inkMuted, false, draw.XLeft, draw.YCenter)
		return panel{
			title: name, width: float64(symbol + style.Width(name) + 8), tall: 18,
			draw: func(c draw.Canvas) {
				mark(c, c.Min.X+1, c.Center().Y)
				c.FillText(style, vg.Point{X: c.Min.X + symbol + 5, Y: c.Center().Y}, name)
			},
		}
	}
	block := func(col ink, width, height vg.Length) func(c draw.Canvas, x, y vg.Length) {
		return func(c draw.Canvas, x, y vg.Length) {
			c.SetColor(col)
			c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - height/2}, Max: vg.Point{X: x + width, Y: y + height/2}}.Path())
		}
	}
	event := func(kind report.EventKind, long vg.Length) func(c draw.Canvas, x, y vg.Length) {
		return func(c draw.Canvas, x, y vg.Length) { eventMark(c, inkText, kind, x+3, x+3+long, y, 3) }
	}
	return []panel{
		item("a term", 19, block(inkText, 18, 7)), item("no leader", 15, block(inkGap, 14, 14)),
		item("woken up", 8, event(report.WokenUp, 0)), item("read", 17, event(report.Read, 11)),
		item("write", 19, event(report.Wrote, 11)), item("write in vain", 19, event(report.Refused, 11)),
	}
}
