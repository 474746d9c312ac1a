package page

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// waiting shows how long candidates waited for their election.
func (v view) waiting() section {
	s := section{ID: "waiting", Title: "How long a candidate waits", Intro: []string{
		"From a candidate’s arrival to its election. A steep line means that all wait about equally long; a long foot and head mean that some are lucky and others are not.",
	}}
	for _, svc := range services(v.report) {
		p := part{Heading: svc.name, Beside: beside(svc.runs)}
		runs := v.close(svc.runs, func(r report.Run) bool { return len(shares(r.Waits)) > 1 })
		if curves := waitCurves(runs, v.looks); len(curves) > 0 {
			desc := "The share of elections against the time waited."
			for _, run := range runs {
				desc += fmt.Sprintf(" %s: half within %s, longest %s.", run.Strategy, duration(run.Waits.P50), duration(run.Waits.Max))
			}
			p.Pictures = append(p.Pictures, picture{name: "waits-" + svc.slug, title: "How long candidates waited", columns: 1, Class: "one",
				Caption: fmt.Sprintf("With %s: of all elections, the share in which the candidate had waited no longer than the time below.", plural(runs[0].N, "candidate", "candidates")) + partly(svc, runs[0].N),
				panels:  []panel{{title: "Waits", note: "share of elections", desc: desc, width: 520, tall: 320, draw: waits(curves)}}})
		}
		if !slices.ContainsFunc(svc.runs, func(r report.Run) bool { return r.Waits.N > 0 }) {
			p.Missing = append(p.Missing, "No waits were recorded.")
		} else {
			p.Tables = append(p.Tables, v.pivot(quantilesCaption("Wait from arrival to election", each(svc.runs, func(r report.Run) report.Quantiles { return r.Waits.Quantiles })), svc.runs, func(r report.Run) cell { return quantiles(r.Waits.Quantiles) }))
		}
		s.Parts = append(s.Parts, p)
	}
	return s
}
