package page

import (
	"math"
	"slices"
)

// The text styles of a chart, in pixels of a chart at its own size.
var (
	titles = letter{13, inkText, true}
	names  = letter{11.5, inkText, true}
	labels = letter{11.5, inkMuted, false}
	ticks  = letter{11, inkMuted, false}
)

// middle is how far the base line of a name or label must be below a place to centre it there.
const middle = 5.337

// A tick marks a value on an axis. One without a label is short.
type tick struct {
	at    float64
	label string
}

// An axis is one direction of a chart.
type axis struct {
	low, high float64
	log       bool
	ticks     []tick
}

// part returns which part of the axis is below v.
func (a axis) part(v float64) float64 {
	if a.log {
		return math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return (v - a.low) / (a.high - a.low)
}

// shown returns the ticks that are on the axis.
func (a axis) shown() []tick {
	return slices.DeleteFunc(a.ticks, func(t tick) bool { return a.part(t.at) < 0 || a.part(t.at) > 1 })
}

// room returns the length of the axis if length includes the half label that sticks out at its end, if any.
func (a axis) room(length float64, half func(label string) float64) float64 {
	least, most := length, 0.0
	for _, t := range a.ticks {
		part, half := a.part(t.at), half(t.label)
		if out := part*length + half - length; t.label != "" && out > most {
			least, most = (length-half)/part, out
		}
	}
	return least
}

// A plot is the part of a chart that has the data.
type plot struct {
	box
	x, y func(v float64) float64
}

// axes draws a chart's axes, with light rules across for a grid, and a description of the x axis below it.
func (c *canvas) axes(b box, x, y axis, grid bool, what string) plot {
	const height, length = 12.294, 4.0 // of labels, and of ticks on the x axis
	var left float64
	for _, t := range y.ticks {
		left = max(left, ticks.width(t.label))
	}
	x.thin(b.right - b.left - left)
	x.ticks, y.ticks = x.shown(), y.shown()
	edge := b.bottom - height - length
	data := b.inset(left+3, 0, 0, height+length+0.4)
	data.right = data.left + x.room(data.right-data.left, func(label string) float64 { return ticks.width(label) / 2 })
	data.top = data.bottom - y.room(data.bottom-data.top, func(string) float64 { return height / 2 })
	p := plot{data,
		func(v float64) float64 { return data.left + x.part(v)*(data.right-data.left) },
		func(v float64) float64 { return data.bottom - y.part(v)*(data.bottom-data.top) },
	}
	for _, t := range x.ticks {
		c.text(ticks, centred, place{p.x(t.at), b.bottom - 3.378}, t.label)
	}
	fine := pen{ink: inkMuted, width: 0.8}
	for _, t := range x.ticks {
		until := edge + length
		if t.label == "" {
			until = edge + length/2
		}
		c.stroke(fine, along(place{p.x(t.at), until}, place{p.x(t.at), edge}))
	}
	c.stroke(fine, along(place{data.left, edge}, place{data.right, edge}))
	for _, t := range y.ticks {
		c.text(ticks, toTheLeft, place{b.left + left, p.y(t.at) + 2.769}, t.label)
	}
	c.text(labels, toTheLeft, place{b.right, b.bottom + 9.911}, what)
	if grid {
		for _, t := range y.ticks {
			c.stroke(pen{ink: inkGrid, width: 0.8}, along(place{data.left, p.y(t.at)}, place{data.right, p.y(t.at)}))
		}
	}
	return p
}

// logAxis returns a logarithmic axis for low to high that ends on ticks.
func logAxis(low, high float64, format func(float64) string) axis {
	low, high = logRange(low, high)
	return axis{low, high, true, logTicks(low, high, format)}
}

// logTicks marks every power of ten, or every nth above 7 decades. If there are few, it also marks multiples.
func logTicks(low, high float64, format func(float64) string) (all []tick) {
	decades := math.Log10(high / low)
	steps := []float64{1}
	switch {
	case decades < 1.2:
		steps = []float64{1, 2, 3, 5, 7}
	case decades < 2.6:
		steps = []float64{1, 2, 5}
	}
	every := max(1, int(math.Ceil(decades/7)))
	for exp := int(math.Floor(math.Log10(low))); exp <= int(math.Ceil(math.Log10(high))); exp++ {
		for _, step := range steps {
			v := step * math.Pow10(exp)
			if v < low*0.999 || v > high*1.001 || step == 1 && exp%every != 0 {
				continue
			}
			all = append(all, tick{v, format(v)})
		}
	}
	return all
}

// logRange widens low and high until they end on ticks: on 1, 2 or 5 times a power of ten.
func logRange(low, high float64) (float64, float64) {
	from, to := stepBelow(low*1.0001), roundStep(high)
	if from >= to {
		to = 10 * from
	}
	return from, to
}

// linearTicks marks an axis from 0 at about n round places.
func linearTicks(high float64, n int, format func(float64) string) (all []tick) {
	step := roundStep(high / float64(n))
	for i := 0; float64(i)*step <= high*1.0001; i++ {
		all = append(all, tick{float64(i) * step, format(float64(i) * step)})
	}
	return all
}

// orderTicks numbers candidates from 0 at about n round places.
func orderTicks(candidates, n int) (all []tick) {
	step := max(1, int(roundStep(float64(candidates)/float64(n))))
	for i := 0; i < candidates; i += step {
		all = append(all, tick{float64(i), count(float64(i))})
	}
	return all
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	base := math.Pow10(int(math.Floor(math.Log10(v) + 1e-9)))
	for _, step := range []float64{1, 2, 5} {
		if step*base >= v*0.9999 {
			return step * base
		}
	}
	return 10 * base
}

// stepBelow returns the largest of 1, 2 and 5 times a power of ten that is at most v.
func stepBelow(v float64) (below float64) {
	base := math.Pow10(int(math.Floor(math.Log10(v) + 1e-9)))
	for _, step := range []float64{0.5, 1, 2, 5} {
		if step*base <= v {
			below = step * base
		}
	}
	return below
}

// thin removes the labels that do not fit on a horizontal axis of a width. The ends have priority, then
// powers of ten.
func (a axis) thin(width float64) {
	last := len(a.ticks) - 1
	rank := func(i int) int {
		exp := math.Log10(a.ticks[i].at)
		switch {
		case i == last:
			return 0
		case i == 0:
			return 1
		case math.Abs(exp-math.Round(exp)) < 1e-9:
			return 2
		}
		return 3
	}
	type extent struct{ from, to float64 }
	var taken []extent
	for first := range 4 {
		for i := range a.ticks {
			t := &a.ticks[i]
			middle, half := width*a.part(t.at), ticks.width(t.label)/2+2
			at := extent{middle - half, middle + half}
			switch {
			case rank(i) != first:
			case slices.ContainsFunc(taken, func(e extent) bool { return at.from < e.to && e.from < at.to }):
				t.label = ""
			default:
				taken = append(taken, at)
			}
		}
	}
}
