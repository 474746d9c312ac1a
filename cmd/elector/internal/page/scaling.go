package page

import (
	"cmp"
	"math"
	"slices"
)

// A point is a figure at N candidates. p90 and top, the whisker's end, are 0 if it has none.
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

// scaling draws curves against N, both axes logarithmic. Each curve has points, and all are above 0.
func scaling(curves []curve, looks map[string]look, format func(float64) string) drawing {
	return func(c *canvas, b box) {
		room, low, high := 0.0, math.Inf(1), math.Inf(-1)
		var ns []int
		for i := range curves {
			curve := &curves[i]
			curve.label = names.fit(curve.label, (b.right-b.left)*2/5)
			room = max(room, names.width(curve.label))
			for _, p := range curve.points {
				low, high = min(low, p.mid), max(high, p.mid, p.p90, p.top)
				ns = append(ns, p.n)
			}
		}
		slices.Sort(ns)
		ns = slices.Compact(ns)
		var tried []tick
		for _, n := range ns {
			tried = append(tried, tick{float64(n), count(float64(n))})
		}
		// Room at both ends for curves that are shifted aside.
		first, last := tried[0].at, tried[len(tried)-1].at
		edge := math.Pow(last/first, 0.06)
		p := c.axes(b.inset(0, 0, room+16, 14), axis{first / edge, last * edge, true, tried}, logAxis(low, high, format), true, "candidates (N)")

		type end struct {
			curve curve
			from  place
		}
		var ends []end
		for i, curve := range curves {
			// Side by side, to distinguish whiskers at the same N.
			aside := (float64(i) - float64(len(curves)-1)/2) * 3.2
			l := looks[curve.strategy]
			var line []place
			for _, at := range curve.points {
				line = append(line, place{p.x(float64(at.n)) + aside, p.y(at.mid)})
				c.whisker(l.ink, line[len(line)-1].x, p.y, at)
			}
			c.stroke(l.line(), along(line...))
			for _, at := range line {
				c.mark(l.shape, l.ink, at, 3.4)
			}
			ends = append(ends, end{curve, line[len(line)-1]})
		}

		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(b.from.y, a.from.y) })
		heights := make([]float64, len(ends))
		for i := range ends {
			heights[i] = -ends[i].from.y
		}
		spread(heights, 14, 5-p.bottom, -5-p.top)
		for i, end := range ends {
			ink, x, y := looks[end.curve.strategy].ink, p.right+8, -heights[i]
			c.stroke(pen{ink: ink, width: 0.7}, along(place{end.from.x + 5, end.from.y}, place{x - 1, y}))
			c.text(names.in(ink), toTheRight, place{x + 2, y + middle}, end.curve.label)
		}
	}
}

// whisker reaches from the median to the top, with a tick at p90.
func (c *canvas) whisker(i ink, x float64, y func(float64) float64, p point) {
	if p.top <= p.mid {
		return
	}
	thin := pen{ink: i, width: 0.9}
	c.stroke(thin, along(place{x, y(p.mid)}, place{x, y(p.top)})+along(place{x - 2.5, y(p.top)}, place{x + 2.5, y(p.top)}))
	if p.p90 > p.mid {
		c.stroke(thin, along(place{x - 1.7, y(p.p90)}, place{x + 1.7, y(p.p90)}))
	}
}

// spread moves the sorted heights apart until each has gap, and none is outside.
func spread(heights []float64, gap, low, high float64) {
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
