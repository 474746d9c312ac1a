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

// logAxis returns a logarithmic axis from low or less to high or more, whose ends are ticks: 1, 2 or 5 times a
// power of ten. It marks every power of ten, or every nth above 7 decades. If there are few, it also marks
// multiples.
func logAxis(low, high float64, format func(float64) string) axis {
	a := axis{low: stepBelow(low * 1.0001), high: roundStep(high), log: true}
	if a.low >= a.high {
		a.high = 10 * a.low
	}
	decades := math.Log10(a.high / a.low)
	steps := []float64{1}
	switch {
	case decades < 1.2:
		steps = []float64{1, 2, 3, 5, 7}
	case decades < 2.6:
		steps = []float64{1, 2, 5}
	}
	nth := max(1, int(math.Ceil(decades/7)))
	for exp := int(math.Floor(math.Log10(a.low))); exp <= int(math.Ceil(math.Log10(a.high))); exp++ {
		for _, step := range steps {
			v := step * math.Pow10(exp)
			if v >= a.low*0.999 && v <= a.high*1.001 && (step != 1 || exp%nth == 0) {
				a.ticks = append(a.ticks, tick{v, format(v)})
			}
		}
	}
	return a
}

// every marks an axis from 0 to high at each step.
func every(step, high float64, format func(float64) string) (all []tick) {
	for v := 0.0; v <= high; v += step {
		all = append(all, tick{v, format(v)})
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
	var taken [][2]float64 // from and to, of labels that stay
	for first := range 4 {
		for i := range a.ticks {
			if rank(i) != first {
				continue
			}
			t := &a.ticks[i]
			middle, half := width*a.part(t.at), ticks.width(t.label)/2+2
			from, to := middle-half, middle+half
			if slices.ContainsFunc(taken, func(other [2]float64) bool { return from < other[1] && other[0] < to }) {
				t.label = ""
			} else {
				taken = append(taken, [2]float64{from, to})
			}
		}
	}
}
