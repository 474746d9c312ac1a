package page

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// winsBars is a panel with a bar for every candidate, by arrival.
type winsBars struct {
	look  look
	count []int
	most  int // of all panels: they have one scale
}

func (w winsBars) draw(c draw.Canvas) {
	p := newPlot()
	p.Y.Min, p.Y.Max = 0, float64(max(w.most, 1))
	step := roundStep(math.Max(p.Y.Max/4, 1))
	p.Y.Max = math.Ceil(p.Y.Max/step) * step
	p.Y.Tick.Marker = linearTicks(int(p.Y.Max/step), count)
	p.X.Min, p.X.Max = -0.5, float64(len(w.count))-0.5
	p.X.Tick.Marker = orderTicks(len(w.count), 6)
	grid(p)
	p.Add(w)
	area := draw.Crop(c, 0, -4, 14, -4)
	p.Draw(area)
	c.FillText(textStyle(labelSize, inkMuted, false, draw.XRight, draw.YBottom),
		vg.Point{X: area.Max.X, Y: c.Min.Y + 3}, "candidate, by arrival")
}

func (w winsBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.SetColor(w.look.ink)
	// A hair of paper between bars, unless there are so many that it would be all paper.
	gap := 0.14
	if c.Size().X < 3*vg.Length(len(w.count)) {
		gap = 0
	}
	for i, n := range w.count {
		left, right := x(float64(i)-0.5+gap), x(float64(i)+0.5-gap)
		if n > 0 {
			c.Fill(vg.Rectangle{Min: vg.Point{X: left, Y: y(0)}, Max: vg.Point{X: right, Y: y(float64(n))}}.Path())
		}
	}
}

// orderTicks numbers candidates from 0 at about n round places.
func orderTicks(candidates, n int) plot.TickerFunc {
	return func(float64, float64) []plot.Tick {
		step := max(1, int(roundStep(float64(candidates)/float64(n))))
		var ticks []plot.Tick
		for i := 0; i < candidates; i += step {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: count(float64(i))})
		}
		return ticks
	}
}

// waits is a panel of how long candidates waited for their election: for each time, the
// share of elections that took no longer.
type waits struct {
	curves    []waitCurve
	low, high time.Duration
}

type waitCurve struct {
	name   string
	look   look
	points []share
}

// share is the part of all waits that were no longer than at.
type share struct {
	at   time.Duration
	part float64
}

// shares adds a histogram up. The last bucket ends where the longest wait does.
func shares(h report.Histogram) []share {
	total := 0
	for _, n := range h.Count {
		total += n
	}
	if total == 0 || len(h.Count) != len(h.Bounds)+1 {
		return nil
	}
	var out []share
	sum := 0
	for i, n := range h.Count {
		sum += n
		at := h.Max
		if i < len(h.Bounds) {
			at = h.Bounds[i]
		}
		if h.Max > 0 && at > h.Max {
			at = h.Max // nobody waited longer
		}
		if at <= 0 || len(out) > 0 && at <= out[len(out)-1].at {
			if len(out) > 0 {
				out[len(out)-1].part = float64(sum) / float64(total)
			}
			continue
		}
		out = append(out, share{at, float64(sum) / float64(total)})
	}
	if len(out) == 0 {
		return nil
	}
	// A line begins on the axis: of the empty buckets at the beginning the last says so, or
	// else the bound that the first one would have.
	if first := slices.IndexFunc(out, func(s share) bool { return s.part > 0 }); first > 0 {
		return out[first-1:]
	}
	return append([]share{{at: boundBelow(out[0].at)}}, out...)
}

// boundBelow is the next smaller of a histogram's bounds, which are 1, 2 and 5 times powers of ten.
func boundBelow(at time.Duration) time.Duration {
	bound := time.Duration(1)
	for decade := time.Duration(1); decade < at && decade > 0; decade *= 10 {
		for _, step := range []time.Duration{1, 2, 5} {
			if step*decade < at {
				bound = step * decade
			}
		}
	}
	return bound
}

func newWaits(runs []report.Run, looks map[string]look) (w waits, ok bool) {
	for _, run := range runs {
		points := shares(run.Waits)
		if len(points) < 2 {
			continue
		}
		w.curves = append(w.curves, waitCurve{run.Strategy, looks[run.Strategy], points})
		if from := points[0].at; w.low == 0 || from < w.low {
			w.low = from
		}
		w.high = max(w.high, points[len(points)-1].at)
	}
	return w, len(w.curves) > 0
}

func (w waits) draw(c draw.Canvas) {
	p := newPlot()
	p.X.Scale = plot.LogScale{}
	p.X.Min, p.X.Max = logRange(float64(w.low), float64(w.high))
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0 %"}, {Value: 0.25, Label: "25 %"}, {Value: 0.5, Label: "50 %"}, {Value: 0.75, Label: "75 %"}, {Value: 1, Label: "100 %"}}
	grid(p)
	p.Add(w)
	names := textStyle(labelSize, inkText, true, draw.XLeft, draw.YCenter)
	var room vg.Length
	for i := range w.curves {
		curve := &w.curves[i]
		curve.name = fit(curve.name, names, c.Size().X/3)
		room = max(room, names.Width(curve.name))
	}
	area := draw.Crop(c, 0, -room-48, 14, -6)
	p.X.Tick.Marker = thin(logTicks(span), p.X.Scale, dataWidth(p, area))
	p.Draw(area)
	c.FillText(textStyle(labelSize, inkMuted, false, draw.XRight, draw.YBottom),
		vg.Point{X: area.Max.X, Y: c.Min.Y + 3}, "from arrival to election")
	// The lines end in one place, so the names cannot stand at their ends.
	for i, curve := range w.curves {
		at := vg.Point{X: area.Max.X + 20, Y: area.Max.Y - 8 - 16*vg.Length(i)}
		c.StrokeLine2(draw.LineStyle{Color: curve.look.ink, Width: 1.6, Dashes: curve.look.dash}, at.X, at.Y, at.X+22, at.Y)
		mark(c, curve.look, vg.Point{X: at.X + 11, Y: at.Y}, 3)
		names.Color = curve.look.ink
		c.FillText(names, vg.Point{X: at.X + 27, Y: at.Y}, curve.name)
	}
}

func (w waits) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, curve := range w.curves {
		var line []vg.Point
		for _, s := range curve.points {
			line = append(line, vg.Point{X: x(float64(s.at)), Y: y(s.part)})
		}
		c.StrokeLines(draw.LineStyle{Color: curve.look.ink, Width: 1.6, Dashes: curve.look.dash}, line)
		for _, at := range line {
			mark(c, curve.look, at, 2.6)
		}
	}
}
