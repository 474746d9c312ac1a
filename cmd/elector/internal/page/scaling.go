package page

import (
	"cmp"
	"maps"
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
	look   look
	label  string  // at the end of the line
	points []point // by n
}

// scaling draws curves against N, both axes logarithmic. Each curve has points, and all are above 0.
func scaling(curves []curve, format func(float64) string) drawing {
	return func(c *canvas, b box) {
		room, low, high := 0.0, math.Inf(1), math.Inf(-1)
		tried := make(map[int]bool)
		for i := range curves {
			curve := &curves[i]
			curve.label = names.fit(curve.label, (b.right-b.left)*2/5)
			room = max(room, names.width(curve.label))
			for _, p := range curve.points {
				low, high = min(low, p.mid), max(high, p.mid, p.p90, p.top)
				tried[p.n] = true
			}
		}
		var ns []tick
		for _, n := range slices.Sorted(maps.Keys(tried)) {
			ns = append(ns, tick{float64(n), count(float64(n))})
		}
		// Room at both ends for curves that are shifted aside.
		first, last := ns[0].at, ns[len(ns)-1].at
		edge := math.Pow(last/first, 0.06)
		p := c.axes(b.inset(0, 0, room+16, 14), axis{first / edge, last * edge, true, ns}, logAxis(low, high, format), true, "candidates (N)")

		type end struct {
			curve
			from place
		}
		var ends []end
		for i, curve := range curves {
			// Side by side, to distinguish whiskers at the same N.
			aside := (float64(i) - float64(len(curves)-1)/2) * 3.2
			var line []place
			for _, at := range curve.points {
				x := p.x(float64(at.n)) + aside
				line = append(line, place{x, p.y(at.mid)})
				c.whisker(curve.look.ink, x, p.y, at)
			}
			c.curve(curve.look, 3.4, line...)
			ends = append(ends, end{curve, line[len(line)-1]})
		}

		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(b.from.y, a.from.y) })
		var heights []float64
		for _, end := range ends {
			heights = append(heights, -end.from.y)
		}
		spread(heights, 14, 5-p.bottom, -5-p.top)
		for i, end := range ends {
			ink, x, y := end.look.ink, p.right+8, -heights[i]
			c.stroke(pen{ink: ink, width: 0.7}, along(place{end.from.x + 5, end.from.y}, place{x - 1, y}))
			c.text(names.in(ink), toTheRight, place{x + 2, y + middle}, end.label)
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
		heights[i] = max(heights[i], low)
		low = heights[i] + gap
	}
	for i := range slices.Backward(heights) {
		heights[i] = min(heights[i], high)
		high = heights[i] - gap
	}
}
