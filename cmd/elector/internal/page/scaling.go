package page

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A point is a figure at N candidates. p90 and top, the whisker's end, are 0 where it has none.
type point struct {
	n             int
	mid, p90, top float64
}

// A curve is one strategy's figures against N.
type curve struct {
	strategy string
	label    string  // at the end of the line
	points   []point // by n
}

// A scaling is a panel of curves against N, both axes logarithmic.
type scaling struct {
	curves []curve
	format func(float64) string // of the y axis
	looks  map[string]look
}

// positive leaves out what a logarithmic axis cannot show.
func positive(points []point) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return !(p.mid > 0) || p.n < 1 })
}

// newScaling takes the curves that can be drawn. ok is false unless one of them has two
// points: there is nothing to see then.
func newScaling(curves []curve, looks map[string]look, format func(float64) string) (s scaling, ok bool) {
	s = scaling{format: format, looks: looks}
	for _, c := range curves {
		c.points = positive(c.points)
		if len(c.points) > 0 {
			s.curves = append(s.curves, c)
		}
		ok = ok || len(c.points) > 1 && c.points[0].n != c.points[len(c.points)-1].n
	}
	return s, ok
}

func (s scaling) draw(c draw.Canvas) {
	names := textStyle(labelSize, inkText, true, draw.XLeft, draw.YCenter)
	var room vg.Length
	low, high := math.Inf(1), math.Inf(-1)
	var ns []int
	for i := range s.curves {
		curve := &s.curves[i]
		curve.label = fit(curve.label, names, c.Size().X*2/5)
		room = max(room, names.Width(curve.label))
		for _, p := range curve.points {
			low, high = min(low, p.mid), max(high, p.mid, p.p90, p.top)
			ns = append(ns, p.n)
		}
	}
	slices.Sort(ns)
	ns = slices.Compact(ns)

	p := newPlot()
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Min, p.Y.Max = logRange(low, high)
	p.Y.Tick.Marker = logTicks(s.format)
	first, last := float64(ns[0]), float64(ns[len(ns)-1])
	// Room at both ends for curves that stand aside.
	edge := math.Pow(last/first, 0.06)
	p.X.Min, p.X.Max = first/edge, last*edge
	grid(p)
	p.Add(s)

	const under = 14
	area := draw.Crop(c, 0, -room-16, under, 0)
	p.X.Tick.Marker = thin(candidateTicks(ns), p.X.Scale, dataWidth(p, area))
	p.Draw(area)
	c.FillText(textStyle(labelSize, inkMuted, false, draw.XRight, draw.YBottom),
		vg.Point{X: area.Max.X, Y: c.Min.Y + 3}, "candidates (N)")
}

// Plot draws the curves into the data area.
func (s scaling) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	type label struct {
		curve curve
		from  vg.Point
		at    vg.Length
	}
	var labels []label
	for i, curve := range s.curves {
		// Side by side, so that whiskers at the same N can be told apart.
		aside := vg.Length(float64(i)-float64(len(s.curves)-1)/2) * 3.2
		l := s.looks[curve.strategy]
		place := func(p point) vg.Point { return vg.Point{X: x(float64(p.n)) + aside, Y: y(p.mid)} }
		var line []vg.Point
		for _, p := range curve.points {
			line = append(line, place(p))
			s.whisker(c, l.ink, place(p).X, y, p)
		}
		c.StrokeLines(draw.LineStyle{Color: l.ink, Width: 1.6, Dashes: l.dash}, line)
		for _, p := range curve.points {
			mark(c, l, place(p), 3.4)
		}
		end := line[len(line)-1]
		labels = append(labels, label{curve, end, end.Y})
	}

	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.at, b.at) })
	heights := make([]vg.Length, len(labels))
	for i := range labels {
		heights[i] = labels[i].at
	}
	spread(heights, 14, c.Min.Y+5, c.Max.Y-5)
	for i, label := range labels {
		l := s.looks[label.curve.strategy]
		at := vg.Point{X: c.Max.X + 8, Y: heights[i]}
		c.StrokeLine2(draw.LineStyle{Color: l.ink, Width: 0.7}, label.from.X+5, label.from.Y, at.X-1, at.Y)
		c.FillText(textStyle(labelSize, l.ink, true, draw.XLeft, draw.YCenter), vg.Point{X: at.X + 2, Y: at.Y}, label.curve.label)
	}
}

// whisker reaches from the median to the top, with a tick at p90.
func (s scaling) whisker(c draw.Canvas, col ink, x vg.Length, y func(float64) vg.Length, p point) {
	if p.top <= p.mid {
		return
	}
	style := draw.LineStyle{Color: col, Width: 0.9}
	c.StrokeLine2(style, x, y(p.mid), x, y(p.top))
	c.StrokeLine2(style, x-2.5, y(p.top), x+2.5, y(p.top))
	if p.p90 > p.mid {
		c.StrokeLine2(style, x-1.7, y(p.p90), x+1.7, y(p.p90))
	}
}

func mark(c draw.Canvas, l look, at vg.Point, radius vg.Length) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.ink, Radius: radius, Shape: l.shape}, at)
}

// spread moves the sorted heights apart until each has gap, and none is outside.
func spread(heights []vg.Length, gap, low, high vg.Length) {
	for i := range heights {
		floor := low
		if i > 0 {
			floor = heights[i-1] + gap
		}
		heights[i] = max(heights[i], floor)
	}
	ceiling := high
	for i := range slices.Backward(heights) {
		heights[i] = min(heights[i], ceiling)
		ceiling = heights[i] - gap
	}
}
