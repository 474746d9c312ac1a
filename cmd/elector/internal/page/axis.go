package page

import (
	"math"
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of text in a chart, in pixels of a chart that is shown at its own size.
const (
	titleSize = 13
	labelSize = 11.5
	tickSize  = 11
)

func textStyle(size vg.Length, col ink, bold bool, x text.XAlignment, y text.YAlignment) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: col, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// newPlot is a plot in the manner of this page: light rules across, none around.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle = draw.LineStyle{Color: inkMuted, Width: 0.8}
		axis.Padding = 0
		axis.Tick.LineStyle = draw.LineStyle{Color: inkMuted, Width: 0.8}
		axis.Tick.Length = 4
	}
	p.Y.LineStyle.Width = 0
	p.Y.Tick.Length = 0
	p.X.Tick.Label = textStyle(tickSize, inkMuted, false, draw.XCenter, draw.YTop)
	p.Y.Tick.Label = textStyle(tickSize, inkMuted, false, draw.XRight, draw.YCenter)
	p.X.Label.TextStyle = textStyle(labelSize, inkMuted, false, draw.XCenter, draw.YBottom)
	p.X.Label.Padding = 3
	p.Y.Tick.Label.XAlign = draw.XRight
	return p
}

func grid(p *plot.Plot) {
	g := plotter.NewGrid()
	g.Vertical.Width = 0
	g.Horizontal = draw.LineStyle{Color: inkGrid, Width: 0.8}
	p.Add(g)
}

// logTicks marks a logarithmic axis: every power of ten, and where that is not much,
// 1, 2 and 5 times it.
func logTicks(format func(float64) string) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		decades := math.Log10(high / low)
		steps := []float64{1}
		switch {
		case decades < 1.2:
			steps = []float64{1, 2, 3, 5, 7}
		case decades < 2.6:
			steps = []float64{1, 2, 5}
		}
		every := max(1, int(math.Ceil(decades/7)))
		var ticks []plot.Tick
		for exp := int(math.Floor(math.Log10(low))); exp <= int(math.Ceil(math.Log10(high))); exp++ {
			for _, step := range steps {
				v := step * math.Pow10(exp)
				if v < low*0.999 || v > high*1.001 || step == 1 && exp%every != 0 {
					continue
				}
				ticks = append(ticks, plot.Tick{Value: v, Label: format(v)})
			}
		}
		return ticks
	}
}

// logRange widens low and high until they end on ticks: on 1, 2 or 5 times a power of ten.
func logRange(low, high float64) (float64, float64) {
	steps := []float64{1, 2, 5, 10}
	base := math.Pow10(int(math.Floor(math.Log10(low) + 1e-9)))
	from := base
	for _, step := range steps {
		if step*base <= low*1.0001 {
			from = step * base
		}
	}
	base = math.Pow10(int(math.Floor(math.Log10(high) + 1e-9)))
	to := 10 * base
	for _, step := range slices.Backward(steps) {
		if step*base >= high*0.9999 {
			to = step * base
		}
	}
	if from >= to {
		to = 10 * from
	}
	return from, to
}

// linearTicks marks an axis from 0 at about n round places.
func linearTicks(n int, format func(float64) string) plot.TickerFunc {
	return func(_, high float64) []plot.Tick {
		step := roundStep(high / float64(n))
		var ticks []plot.Tick
		for i := 0; float64(i)*step <= high*1.0001; i++ {
			ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: format(float64(i) * step)})
		}
		return ticks
	}
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	base := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, step := range []float64{1, 2, 5} {
		if step*base >= v*0.9999 {
			return step * base
		}
	}
	return 10 * base
}

// candidateTicks marks the numbers of candidates that were tried.
func candidateTicks(ns []int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, n := range ns {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: count(float64(n))})
	}
	return ticks
}

// dataWidth is how much of the width of an area a plot has for its data.
func dataWidth(p *plot.Plot, area draw.Canvas) vg.Length {
	labels := vg.Length(0)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		labels = max(labels, p.Y.Tick.Label.Width(tick.Label))
	}
	return area.Size().X - labels
}

// thin takes the labels away that a horizontal axis of a width has no room for. The ends
// come first, then powers of ten.
func thin(marker plot.Ticker, scale plot.Normalizer, width vg.Length) plot.TickerFunc {
	style := textStyle(tickSize, inkMuted, false, draw.XCenter, draw.YTop)
	return func(low, high float64) []plot.Tick {
		ticks := slices.Clone(marker.Ticks(low, high))
		rank := func(i int) int {
			exp := math.Log10(ticks[i].Value)
			switch {
			case i == len(ticks)-1:
				return 0
			case i == 0:
				return 1
			case math.Abs(exp-math.Round(exp)) < 1e-9:
				return 2
			}
			return 3
		}
		var order []int
		for i := range ticks {
			order = append(order, i)
		}
		slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
		type extent struct{ from, to vg.Length }
		var taken []extent
		for _, i := range order {
			middle, half := width*vg.Length(scale.Normalize(low, high, ticks[i].Value)), style.Width(ticks[i].Label)/2+2
			at := extent{middle - half, middle + half}
			if slices.ContainsFunc(taken, func(e extent) bool { return at.from < e.to && e.from < at.to }) {
				ticks[i].Label = ""
				continue
			}
			taken = append(taken, at)
		}
		return ticks
	}
}
