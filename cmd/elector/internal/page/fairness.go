package page

import (
	"fmt"
	"math"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// fairness shows who won how often.
func (s service) fairness() part {
	runs := s.most(few, func(r report.Run) bool {
		return slices.ContainsFunc(r.Fairness.Wins, func(n int) bool { return n > 0 })
	})
	if len(runs) == 0 {
		return part{Missing: []string{"Nobody was elected."}}
	}
	most := 0
	for _, run := range runs {
		most = max(most, slices.Max(run.Fairness.Wins))
	}
	var panels []panel
	var jains []string
	for _, run := range runs {
		wins, jain := run.Fairness.Wins, index(run.Fairness.Jain)
		winners := len(slices.DeleteFunc(slices.Clone(wins), func(n int) bool { return n <= 0 }))
		panels = append(panels, panel{title: run.Strategy, note: "times elected; Jain’s index " + jain,
			desc: fmt.Sprintf("Bars of wins per candidate: %s of %s won at least once, one of them %s.",
				count(float64(winners)), count(float64(len(wins))), plural(slices.Max(wins), "time")),
			width: 264, tall: 210, draw: winsBars(s.looks[run.Strategy].ink, wins, most)})
		jains = append(jains, run.Strategy+" "+jain)
	}
	caption := "Jain’s index, over those who were there all the time."
	if s.Method.Churn == 0 {
		caption = "Jain’s index; below it the best possible with so many changes and candidates."
	}
	return part{
		Picture: picture{name: "wins-" + s.slug, title: "Wins per candidate, by strategy", panels: panels, Class: "narrow",
			Caption: fmt.Sprintf("Wins per candidate in the order of their first arrival, with %s. Jain’s index: %s.", plural(runs[0].N, "candidate"), list(jains)) + s.partly(runs[0].N)},
		Missing: s.lacking("There is no count of wins for %s.", runs),
		Tables: []table{
			s.pivot(caption, s.jain),
			s.pivot("Longest wait, in leader changes; below it the share of inversions: 0\u00a0% is order of arrival, about 50\u00a0% is chance.", func(r report.Run) cell {
				if len(r.Fairness.Wins) == 0 {
					return cell{none}
				}
				return cell{count(float64(r.Fairness.LongestWait)), percent(r.Fairness.Inversions)}
			}),
		},
	}
}

// jain shows Jain's index, and below it the index of the most even distribution: with fewer changes than
// candidates nobody comes near 1. The report has that only if nobody came or went: else the index does not
// cover all whose wins it has.
func (v view) jain(run report.Run) cell {
	n, total := len(run.Fairness.Wins), 0
	for _, wins := range run.Fairness.Wins {
		total += wins
	}
	if total <= 0 {
		return cell{none}
	}
	c := cell{index(run.Fairness.Jain)}
	if v.Method.Churn == 0 {
		each, more := total/n, total%n
		squares := (n-more)*each*each + more*(each+1)*(each+1)
		c = append(c, "best "+index(float64(total)*float64(total)/(float64(n)*float64(squares))))
	}
	return c
}

// winsBars draws a bar for every candidate, by arrival. most is the most wins of all panels: they share one scale.
func winsBars(i ink, wins []int, most int) drawing {
	return func(c *canvas, b box) {
		all := float64(len(wins))
		step := roundStep(max(float64(most)/4, 1))
		high := math.Ceil(float64(most)/step) * step
		p := c.axes(b.inset(0, 4, 4, 14),
			axis{low: -0.5, high: all - 0.5, ticks: every(max(1, roundStep(all/6)), all-1, count)},
			axis{low: 0, high: high, ticks: every(step, high, count)}, true, "candidate, by arrival")
		// A thin gap between bars, unless there are so many bars that gaps would fill it all.
		gap := 0.14
		if p.right-p.left < 3*all {
			gap = 0
		}
		for n, won := range wins {
			if won > 0 {
				c.fill(i, box{p.x(float64(n) - 0.5 + gap), p.y(float64(won)), p.x(float64(n) + 0.5 - gap), p.y(0)}.around())
			}
		}
	}
}
