package page

import (
	"math"
	"slices"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// simulation shows the model's answer, and how far it is to be believed.
func (v view) simulation() section {
	sim := v.report.Simulation
	if sim == nil || len(sim.Runs) == 0 {
		return section{}
	}
	s := section{ID: "simulation", Title: "At scale, by simulation", Intro: []string{
		"The same strategies’ code in simulated time, against a model of a server that does one thing at a time. As above, a crash counts from the instant at which the server dropped the leader’s entry: its session timeout comes before.",
	}}
	p := part{Beside: beside(sim.Runs)}
	measured := v.calibrated()
	note := "simulated: line and filled marks"
	caption := "Both axes are logarithmic. " + whiskers
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
		p.Tables = append(p.Tables, v.pivot(quantilesCaption(kind.title+", simulated", each(sim.Runs, kind.of)), sim.Runs, func(r report.Run) cell { return quantiles(kind.of(r)) }))
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
		Head: []string{"Strategy", "N", "measured", "simulated", "error", "service"}}
	worst := 0.0
	for _, c := range v.report.Simulation.Calibration {
		worst = max(worst, math.Abs(c.Error))
		t.Rows = append(t.Rows, row{v.swatch(c.Strategy), c.Strategy, []cell{{Main: count(float64(c.N))},
			{Main: duration(c.Measured)}, {Main: duration(c.Simulated)}, {Main: signed(percent(c.Error))}, {Main: c.Service}}})
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
