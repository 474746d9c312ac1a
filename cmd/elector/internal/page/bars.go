package page

import (
	"math"
	"slices"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// winsBars draws a bar for every candidate, by arrival. most is the most wins of all panels: they share one scale.
func winsBars(i ink, wins []int, most int) drawing {
	return func(c *canvas, b box) {
		high := float64(max(most, 1))
		step := roundStep(max(high/4, 1))
		high = math.Ceil(high/step) * step
		p := c.axes(b.inset(0, 4, 4, 14),
			axis{low: -0.5, high: float64(len(wins)) - 0.5, ticks: orderTicks(len(wins), 6)},
			axis{low: 0, high: high, ticks: linearTicks(high, int(high/step), count)}, true, "candidate, by arrival")
		// A thin gap between bars, unless there are so many bars that gaps would fill it all.
		gap := 0.14
		if p.right-p.left < float64(3*len(wins)) {
			gap = 0
		}
		for n, won := range wins {
			if won > 0 {
				c.fill(i, box{p.x(float64(n) - 0.5 + gap), p.y(float64(won)), p.x(float64(n) + 0.5 - gap), p.y(0)}.around())
			}
		}
	}
}

// share is the part of all waits that were no longer than at.
type share struct {
	at   time.Duration
	part float64
}

// shares returns the cumulative sums of a histogram. The last bucket ends at the longest wait.
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
		if i < len(h.Bounds) && (h.Bounds[i] < at || at <= 0) { // else nobody waited longer
			at = h.Bounds[i]
		}
		part := float64(sum) / float64(total)
		switch last := len(out) - 1; {
		case at > 0 && (last < 0 || at > out[last].at):
			out = append(out, share{at, part})
		case last >= 0:
			out[last].part = part
		}
	}
	if len(out) == 0 {
		return nil
	}
	// A line begins on the axis: at the last of the empty buckets at the beginning, or else at the bound that
	// the first one would have: bounds are whole, and 1, 2 and 5 times powers of ten.
	if first := slices.IndexFunc(out, func(s share) bool { return s.part > 0 }); first > 0 {
		return out[first-1:]
	}
	return append([]share{{at: time.Duration(stepBelow(max(float64(out[0].at-1), 1)))}}, out...)
}

// waits draws a curve for each run: for each time, the share of elections that took no longer.
func waits(runs []report.Run, looks map[string]look) drawing {
	return func(c *canvas, b box) {
		curves := make([][]share, len(runs))
		called := make([]string, len(runs))
		low, high, room := math.Inf(1), 0.0, 0.0
		for i, run := range runs {
			curves[i], called[i] = shares(run.Waits), names.fit(run.Strategy, (b.right-b.left)/3)
			low, high = min(low, float64(curves[i][0].at)), max(high, float64(curves[i][len(curves[i])-1].at))
			room = max(room, names.width(called[i]))
		}
		p := c.axes(b.inset(0, 6, room+48, 14), logAxis(low, high, span),
			axis{low: 0, high: 1, ticks: []tick{{0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1, "100 %"}}}, true, "from arrival to election")
		for i, run := range runs {
			l := looks[run.Strategy]
			var line []place
			for _, s := range curves[i] {
				line = append(line, place{p.x(float64(s.at)), p.y(s.part)})
			}
			c.stroke(l.line(), along(line...))
			for _, at := range line {
				c.mark(l.shape, l.ink, at, 2.6)
			}
		}
		// The lines end in one place, so the names cannot be at their ends.
		for i, run := range runs {
			x, y, l := b.right-room-28, b.top+14+16*float64(i), looks[run.Strategy]
			c.stroke(l.line(), along(place{x, y}, place{x + 22, y}))
			c.mark(l.shape, l.ink, place{x + 11, y}, 3)
			c.text(names.in(l.ink), toTheRight, place{x + 27, y + middle}, called[i])
		}
	}
}
