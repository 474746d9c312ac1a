package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// fairness shows who won how often.
func (v view) fairness() section {
	s := section{ID: "fairness", Title: "Who is elected", Intro: []string{
		"How often each candidate was elected. Jain’s index, over those who were there all the time, is 1 when all won equally often, and 1/N when one won all; with fewer leader changes than candidates it cannot come near 1.",
	}}
	for _, svc := range services(v.report) {
		p := part{Heading: svc.name}
		runs := v.close(svc.runs, func(r report.Run) bool {
			return slices.ContainsFunc(r.Fairness.Wins, func(n int) bool { return n > 0 })
		})
		if len(runs) == 0 {
			s.Parts = append(s.Parts, part{Heading: svc.name, Missing: []string{"Nobody was elected."}})
			continue
		}
		most := 0
		var jains []string
		for _, run := range runs {
			most = max(most, slices.Max(run.Fairness.Wins))
			jains = append(jains, run.Strategy+" "+index(run.Fairness.Jain))
		}
		pic := picture{name: "wins-" + svc.slug, title: "Wins per candidate, by strategy", columns: 4, Class: "narrow",
			Caption: fmt.Sprintf("Wins per candidate in the order of their first arrival, with %s. Jain’s index: %s.",
				plural(runs[0].N, "candidate", "candidates"), list(jains))}
		for _, run := range runs {
			wins, winners := run.Fairness.Wins, 0
			for _, n := range wins {
				if n > 0 {
					winners++
				}
			}
			pic.panels = append(pic.panels, panel{title: run.Strategy,
				note: fmt.Sprintf("times elected; Jain’s index %s", index(run.Fairness.Jain)),
				desc: fmt.Sprintf("Bars of wins per candidate: %s of %s won at least once, one of them %s.",
					count(float64(winners)), count(float64(len(wins))), plural(slices.Max(wins), "time", "times")),
				width: 264, tall: 210, draw: winsBars{v.looks[run.Strategy], wins, most}.draw})
		}
		p.Pictures = append(p.Pictures, pic)
		if lacking := v.lacking(svc, runs); lacking != "" {
			p.Missing = append(p.Missing, "There is no count of wins for "+lacking+".")
		}
		p.Tables = append(p.Tables,
			v.pivot(v.jainCaption(), svc.runs, v.jain),
			v.pivot("Longest wait, in leader changes; below it the share of inversions: 0\u00a0% is order of arrival, about 50\u00a0% is chance.", svc.runs, func(r report.Run) cell {
				if len(r.Fairness.Wins) == 0 {
					return cell{Main: none}
				}
				return cell{count(float64(r.Fairness.LongestWait)), percent(r.Fairness.Inversions)}
			}))
		s.Parts = append(s.Parts, p)
	}
	return s
}

// jain is Jain's index, and below it what it would be had the wins been shared as evenly
// as can be: with fewer changes than candidates nobody comes near 1. The report can tell
// only where nobody came or went, for else the index is not over all whose wins it has.
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
		c.Sub = "best " + index(float64(total)*float64(total)/(float64(n)*float64(squares)))
	}
	return c
}

func (v view) jainCaption() string {
	if v.report.Method.Churn == 0 {
		return "Jain’s index; below it the best possible with so many changes and candidates."
	}
	return "Jain’s index, over those who were there all the time."
}

// waiting shows how long candidates waited for their election.
func (v view) waiting() section {
	s := section{ID: "waiting", Title: "How long a candidate waits", Intro: []string{
		"From a candidate’s arrival to its election. A steep line means that all wait about equally long; a long foot and head mean that some are lucky and others are not.",
	}}
	for _, svc := range services(v.report) {
		p := part{Heading: svc.name}
		runs := v.close(svc.runs, func(r report.Run) bool { return len(shares(r.Waits)) > 1 })
		if w, ok := newWaits(runs, v.looks); ok {
			desc := "The share of elections against the time waited."
			for _, run := range runs {
				desc += fmt.Sprintf(" %s: half within %s, longest %s.", run.Strategy, duration(run.Waits.P50), duration(run.Waits.Max))
			}
			p.Pictures = append(p.Pictures, picture{name: "waits-" + svc.slug, title: "How long candidates waited", columns: 1, Class: "one",
				Caption: fmt.Sprintf("With %s: of all elections, the share in which the candidate had waited no longer than the time below.", plural(runs[0].N, "candidate", "candidates")),
				panels:  []panel{{title: "Waits", note: "share of elections", desc: desc, width: 460, tall: 300, draw: w.draw}}})
		}
		if !slices.ContainsFunc(svc.runs, func(r report.Run) bool { return r.Waits.N > 0 }) {
			p.Missing = append(p.Missing, "No waits were recorded.")
		} else {
			p.Tables = append(p.Tables, v.pivot("Wait from arrival to election: p50, and below it p90 · p99 · max.", svc.runs, func(r report.Run) cell { return quantiles(r.Waits.Quantiles) }))
		}
		s.Parts = append(s.Parts, p)
	}
	return s
}

// simulation shows the model's answer, and how far it is to be believed.
func (v view) simulation() section {
	sim := v.report.Simulation
	if sim == nil || len(sim.Runs) == 0 {
		return section{}
	}
	s := section{ID: "simulation", Title: "At scale, by simulation", Intro: []string{
		"The same strategies’ code in simulated time, against a model of a server that does one thing at a time. As above, a crash counts from the instant at which the server dropped the leader’s entry: its session timeout comes before.",
	}}
	p := part{}
	measured := v.calibrated()
	note := "simulated: line and filled marks"
	caption := "Both axes are logarithmic. Whiskers reach up to p99, with a tick at p90."
	if len(measured) > 0 {
		note += "; measured: hollow"
		var names []string
		for _, c := range sim.Calibration {
			if !slices.Contains(names, c.Service) {
				names = append(names, c.Service)
			}
		}
		caption += " Hollow marks were measured on " + list(names) + "."
	}
	pic := picture{name: "simulation", title: "Time without a leader, simulated", columns: 2, Class: "large", Caption: caption}
	for _, kind := range []struct {
		title, missing string
		of             func(report.Run) report.Quantiles
	}{
		{"Without a leader after a crash", "No crash was simulated.", func(r report.Run) report.Quantiles { return r.Crashed.Quantiles }},
		{"Without a leader after a resignation", "No resignation was simulated.", func(r report.Run) report.Quantiles { return r.Resigned.Quantiles }},
	} {
		if !slices.ContainsFunc(sim.Runs, func(r report.Run) bool { return kind.of(r).N > 0 }) {
			p.Missing = append(p.Missing, kind.missing)
			continue
		}
		var curves []curve
		for _, strategy := range v.order {
			curves = append(curves, curve{strategy: strategy, label: strategy, points: timed(sim.Runs, strategy, kind.of), measured: timed(measured, strategy, kind.of)})
		}
		v.add(&p, &pic, curves, kind.title, note, span)
		p.Tables = append(p.Tables, v.pivot(kind.title+", simulated: p50, and below it p90 · p99 · max.", sim.Runs, func(r report.Run) cell { return quantiles(kind.of(r)) }))
	}
	if len(pic.panels) > 0 {
		p.Pictures = append(p.Pictures, pic)
	}
	p.Tables = append(p.Tables, v.pivot("Wake-ups per leader change, simulated.", sim.Runs, func(r report.Run) cell { return cell{Main: count(r.PerChange.WakeUps)} }))
	p.Tables = append(p.Tables, modelTable(sim.Model))
	if len(sim.Calibration) > 0 {
		p.Tables = append(p.Tables, v.calibration())
	} else {
		p.Missing = append(p.Missing, "The model was not compared with measured runs: this report has none for it.")
	}
	s.Parts = []part{p}
	return s
}

// calibrated are the measured runs on the services that the model was compared with.
func (v view) calibrated() []report.Run {
	var out []report.Run
	for _, run := range v.report.Runs {
		if slices.ContainsFunc(v.report.Simulation.Calibration, func(c report.Calibration) bool { return c.Service == run.Service }) {
			out = append(out, run)
		}
	}
	return out
}

func modelTable(m report.Model) table {
	caption := "The model."
	if m.Source != "" {
		caption = "The model. Where its figures come from: " + strings.TrimSuffix(m.Source, ".") + "."
	}
	return table{Caption: caption, Head: []string{"What it takes", "time"}, Rows: []row{
		{Name: "a round trip, without the server’s time", Cells: []cell{{Main: span(float64(m.RoundTrip))}}},
		{Name: "a write, in vain or not", Cells: []cell{{Main: span(float64(m.Write))}}},
		{Name: "a read, or to set a watch", Cells: []cell{{Main: span(float64(m.Read))}}},
		{Name: "to tell one candidate of a change", Cells: []cell{{Main: span(float64(m.Notice))}}},
		{Name: "each KiB of a listing", Cells: []cell{{Main: span(float64(m.KiB))}}},
	}}
}

func (v view) calibration() table {
	t := table{Caption: "Calibration: time without a leader after a resignation, p50, measured and simulated.",
		Head: []string{"Strategy", "service", "N", "measured", "simulated", "error"}}
	worst := 0.0
	for _, c := range v.report.Simulation.Calibration {
		worst = max(worst, math.Abs(c.Error))
		t.Rows = append(t.Rows, row{v.swatch(c.Strategy), c.Strategy, []cell{{Main: c.Service}, {Main: count(float64(c.N))},
			{Main: duration(c.Measured)}, {Main: duration(c.Simulated)}, {Main: signed(percent(c.Error))}}})
	}
	t.Caption += " The largest error is " + percent(worst) + "."
	return t
}

// rounded takes away what is left of a slope of 0 by rounding errors.
func rounded(v float64) float64 {
	if math.Abs(v) < 0.005 {
		return 0
	}
	return v
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
