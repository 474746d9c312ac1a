package page

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// fairness shows who won how often.
func (v view) fairness(svc service) (p part) {
	runs := v.most(svc.runs, few, func(r report.Run) bool {
		return slices.ContainsFunc(r.Fairness.Wins, func(n int) bool { return n > 0 })
	})
	if len(runs) == 0 {
		return part{Missing: []string{"Nobody was elected."}}
	}
	most := 0
	var jains []string
	for _, run := range runs {
		most = max(most, slices.Max(run.Fairness.Wins))
		jains = append(jains, run.Strategy+" "+index(run.Fairness.Jain))
	}
	pic := picture{name: "wins-" + svc.slug, title: "Wins per candidate, by strategy", columns: 3, Class: "narrow",
		Caption: fmt.Sprintf("Wins per candidate in the order of their first arrival, with %s. Jain’s index: %s.",
			plural(runs[0].N, "candidate", "candidates"), list(jains)) + partly(svc, runs[0].N)}
	for _, run := range runs {
		wins := run.Fairness.Wins
		winners := len(slices.DeleteFunc(slices.Clone(wins), func(n int) bool { return n <= 0 }))
		pic.panels = append(pic.panels, panel{title: run.Strategy,
			note: fmt.Sprintf("times elected; Jain’s index %s", index(run.Fairness.Jain)),
			desc: fmt.Sprintf("Bars of wins per candidate: %s of %s won at least once, one of them %s.",
				count(float64(winners)), count(float64(len(wins))), plural(slices.Max(wins), "time", "times")),
			width: 264, tall: 210, draw: winsBars(v.looks[run.Strategy].ink, wins, most)})
	}
	p.show(pic)
	if lacking := v.lacking(svc, runs); lacking != "" {
		p.Missing = append(p.Missing, "There is no count of wins for "+lacking+".")
	}
	caption := "Jain’s index, over those who were there all the time."
	if v.report.Method.Churn == 0 {
		caption = "Jain’s index; below it the best possible with so many changes and candidates."
	}
	p.Tables = []table{
		v.pivot(caption, svc.runs, v.jain),
		v.pivot("Longest wait, in leader changes; below it the share of inversions: 0\u00a0% is order of arrival, about 50\u00a0% is chance.", svc.runs, func(r report.Run) cell {
			if len(r.Fairness.Wins) == 0 {
				return cell{Main: none}
			}
			return cell{count(float64(r.Fairness.LongestWait)), []string{percent(r.Fairness.Inversions)}}
		}),
	}
	return p
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
		return cell{Main: none}
	}
	c := cell{Main: index(run.Fairness.Jain)}
	if v.report.Method.Churn == 0 {
		each, more := total/n, total%n
		squares := (n-more)*each*each + more*(each+1)*(each+1)
		c.Sub = []string{"best " + index(float64(total)*float64(total)/(float64(n)*float64(squares)))}
	}
	return c
}
