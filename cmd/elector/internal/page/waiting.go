package page

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// waiting shows how long candidates waited for their election.
func (s service) waiting() part {
	p := part{Beside: s.beside()}
	runs := s.most(few, func(r report.Run) bool { return len(shares(r.Waits)) > 1 })
	if len(runs) > 0 {
		desc := "The share of elections against the time waited."
		for _, run := range runs {
			desc += fmt.Sprintf(" %s: half within %s, longest %s.", run.Strategy, duration(run.Waits.P50), duration(run.Waits.Max))
		}
		p.Picture = picture{name: "waits-" + s.slug, title: "How long candidates waited", Class: "one",
			Caption: fmt.Sprintf("With %s: of all elections, the share in which the candidate had waited no longer than the time below.", plural(runs[0].N, "candidate")) + s.partly(runs[0].N),
			panels:  []panel{{title: "Waits", note: "share of elections", desc: desc, width: 520, tall: 320, draw: s.waits(runs)}}}
	}
	s.times(&p, "Wait from arrival to election", "No waits were recorded.", func(r report.Run) report.Quantiles { return r.Waits.Quantiles })
	return p
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
func (s service) waits(runs []report.Run) drawing {
	return func(c *canvas, b box) {
		called := make([]string, len(runs))
		low, high, room := math.Inf(1), 0.0, 0.0
		for i, run := range runs {
			curve := shares(run.Waits)
			low, high = min(low, float64(curve[0].at)), max(high, float64(curve[len(curve)-1].at))
			called[i] = names.fit(run.Strategy, (b.right-b.left)/3)
			room = max(room, names.width(called[i]))
		}
		p := c.axes(b.inset(0, 6, room+48, 14), logAxis(low, high, span),
			axis{low: 0, high: 1, ticks: []tick{{0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1, "100 %"}}}, true, "from arrival to election")
		for _, run := range runs {
			var line []place
			for _, share := range shares(run.Waits) {
				line = append(line, place{p.x(float64(share.at)), p.y(share.part)})
			}
			c.curve(s.looks[run.Strategy], 2.6, line...)
		}
		// The lines end in one place, so the names cannot be at their ends.
		for i, run := range runs {
			x, y, l := b.right-room-28, b.top+14+16*float64(i), s.looks[run.Strategy]
			c.specimen(l, place{x + 11, y}, 11, 3)
			c.text(names.in(l.ink), toTheRight, place{x + 27, y + middle}, called[i])
		}
	}
}
