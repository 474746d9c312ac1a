package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// glance is the shortest answer: every strategy with the most candidates that were tried.
func (v view) glance() section {
	s := section{ID: "glance", Title: "At a glance", Intro: []string{
		"With the most candidates that each strategy was tried with. Times are medians; wake-ups and operations are means over all candidates, per leader change.",
	}}
	for _, svc := range services(v.report) {
		var last []report.Run
		for _, strategy := range v.order {
			var most report.Run
			for _, run := range svc.runs {
				if run.Strategy == strategy && run.N > most.N {
					most = run
				}
			}
			if most.N > 0 {
				last = append(last, most)
			}
		}
		s.Parts = append(s.Parts, part{Heading: svc.name, Tables: []table{v.perStrategy(
			"Order kept is 100\u00a0% less the inversions: 100\u00a0% is strict order of arrival, about 50\u00a0% is chance.",
			[]string{"N", "no leader: resigned", "crashed", "wake-ups", "operations", "bytes", "Jain’s index", "order kept"},
			last, func(run report.Run) []cell {
				return []cell{
					{Main: count(float64(run.N))},
					median(run.Resigned.Quantiles), median(run.Crashed.Quantiles),
					{Main: count(run.PerChange.WakeUps)}, {Main: count(run.PerChange.Operations)}, {Main: size(run.PerChange.Bytes)},
					v.jain(run), {Main: percent(1 - run.Fairness.Inversions)},
				}
			})}})
	}
	return s
}

func median(q report.Quantiles) cell {
	if q.N == 0 {
		return cell{Main: none}
	}
	return cell{Main: duration(q.P50)}
}

// change shows one leader change of each strategy, event by event.
func (v view) change() section {
	s := section{ID: "change", Title: "One leader change, watched closely", Intro: []string{
		"Each row is a candidate, in the order of arrival. Where many rings stand above one another, the service has woken a herd: all are told, and one will lead.",
	}}
	for _, svc := range services(v.report) {
		runs := v.close(svc.runs, func(r report.Run) bool { return r.Sample != nil && len(r.Sample.Events) > 0 })
		if len(runs) == 0 {
			s.Parts = append(s.Parts, part{Heading: svc.name, Missing: []string{"No leader change was recorded event by event."}})
			continue
		}
		s.Parts = append(s.Parts, v.changePart(svc, runs))
	}
	return s
}

func (v view) changePart(svc service, runs []report.Run) part {
	var from, until time.Duration
	candidates := 0
	for _, run := range runs {
		candidates = max(candidates, run.N)
		for _, e := range run.Sample.Events {
			from, until = min(from, e.At), max(until, e.At+e.Took)
			candidates = max(candidates, e.Candidate+1)
		}
	}
	until = max(until+until/20, time.Microsecond)
	from = min(from+from/20, -until/16) // room for the term that ends

	p := part{Heading: svc.name}
	pic := picture{
		name: "change-" + svc.slug, title: "One leader change with " + plural(runs[0].N, "candidate", "candidates") + ", by strategy",
		columns: 4, Class: "narrow",
		key: timelineKey(),
	}
	for _, run := range runs {
		events := slices.Clone(run.Sample.Events)
		slices.SortStableFunc(events, func(a, b report.Event) int { return cmp.Compare(a.At, b.At) })
		n := tally(events)
		gone, come := vacancy(events)
		vacant := duration(come - gone)
		pic.panels = append(pic.panels, panel{
			title: run.Strategy,
			note:  fmt.Sprintf("%s, no leader for %s", plural(n[report.WokenUp], "wake-up", "wake-ups"), vacant),
			desc: fmt.Sprintf("A change of leader by %s with %s: no leader for %s; %s, %s, %s, %s in vain.",
				cause(run), plural(run.N, "candidate", "candidates"), vacant, plural(n[report.WokenUp], "wake-up", "wake-ups"),
				plural(n[report.Read], "read", "reads"), plural(n[report.Wrote], "write", "writes"), plural(n[report.Refused], "write", "writes")),
			width: 264, tall: 400,
			draw: timeline{v.looks[run.Strategy], events, candidates, from, until}.draw,
		})
	}
	pic.Caption = fmt.Sprintf("A change of leader by %[2]s with %[1]s, all at one scale. The bar at the left is the term that ends, the bar at the right the one that begins.",
		plural(runs[0].N, "candidate", "candidates"), cause(runs[0]))
	p.Pictures = append(p.Pictures, pic)
	if lacking := v.lacking(svc, runs); lacking != "" {
		p.Missing = append(p.Missing, "No change was recorded with "+lacking+".")
	}
	p.Tables = append(p.Tables, v.perStrategy("The change that is drawn, in figures.",
		[]string{"by", "no leader for", "wake-ups", "reads", "writes", "writes in vain", "still after"},
		runs, func(run report.Run) []cell {
			n := tally(run.Sample.Events)
			events := slices.Clone(run.Sample.Events)
			slices.SortStableFunc(events, func(a, b report.Event) int { return cmp.Compare(a.At, b.At) })
			from, to := vacancy(events)
			var still time.Duration
			for _, e := range events {
				still = max(still, e.At+e.Took)
			}
			return []cell{{Main: cause(run)}, {Main: duration(to - from)}, {Main: count(float64(n[report.WokenUp]))}, {Main: count(float64(n[report.Read]))},
				{Main: count(float64(n[report.Wrote]))}, {Main: count(float64(n[report.Refused]))}, {Main: duration(still)}}
		}))
	return p
}

func tally(events []report.Event) map[report.EventKind]int {
	n := make(map[report.EventKind]int)
	for _, e := range events {
		n[e.Kind]++
	}
	return n
}

func cause(run report.Run) string {
	if run.Sample.Crash {
		return "crash"
	}
	return "resignation"
}

// lacking names the service's strategies that are not among the runs.
func (v view) lacking(svc service, runs []report.Run) string {
	var names []string
	for _, strategy := range v.order {
		is := func(r report.Run) bool { return r.Strategy == strategy }
		if slices.ContainsFunc(svc.runs, is) && !slices.ContainsFunc(runs, is) {
			names = append(names, strategy)
		}
	}
	return list(names)
}
