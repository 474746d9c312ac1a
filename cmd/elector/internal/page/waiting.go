package page

import (
	"fmt"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// waiting shows how long candidates waited for their election.
func (v view) waiting(svc service) part {
	p := part{Beside: beside(svc.runs)}
	runs := v.most(svc.runs, few, func(r report.Run) bool { return len(shares(r.Waits)) > 1 })
	if len(runs) > 0 {
		desc := "The share of elections against the time waited."
		for _, run := range runs {
			desc += fmt.Sprintf(" %s: half within %s, longest %s.", run.Strategy, duration(run.Waits.P50), duration(run.Waits.Max))
		}
		p.show(picture{name: "waits-" + svc.slug, title: "How long candidates waited", columns: 1, Class: "one",
			Caption: fmt.Sprintf("With %s: of all elections, the share in which the candidate had waited no longer than the time below.", plural(runs[0].N, "candidate", "candidates")) + partly(svc, runs[0].N),
			panels:  []panel{{title: "Waits", note: "share of elections", desc: desc, width: 520, tall: 320, draw: waits(runs, v.looks)}}})
	}
	waited := func(r report.Run) report.Quantiles { return r.Waits.Quantiles }
	all := each(svc.runs, waited)
	if _, most := samples(all); most == 0 {
		p.Missing = append(p.Missing, "No waits were recorded.")
	} else {
		p.Tables = append(p.Tables, v.pivot(quantilesCaption("Wait from arrival to election", all), svc.runs, func(r report.Run) cell { return quantiles(waited(r)) }))
	}
	return p
}
