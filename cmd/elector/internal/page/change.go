package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// glance is the shortest answer: every strategy with the most candidates that were tried.
func (s service) glance() part {
	var last []report.Run
	for _, strategy := range strategies(s.runs) {
		var most report.Run
		for _, run := range s.runs {
			// An empty one has nothing to show, unless there is no other.
			if run.Strategy == strategy && (run.N > most.N && !run.Empty() || most.N == 0 || most.Empty()) {
				most = run
			}
		}
		if most.N > 0 {
			last = append(last, most)
		}
	}
	// The main differences between strategies come first: a narrow screen shows two columns.
	head := []string{"no leader", "wake-ups", "order kept", "after a crash", "operations", "bytes", "Jain’s index"}
	ns, caption := sizes(last), "With the most candidates that each was tried with."
	if len(ns) == 1 {
		caption = "With " + plural(ns[0], "candidate") + "."
	} else {
		head = append(head, "N")
	}
	var notes []string
	if n := sizes(s.runs); len(n) == 1 {
		notes = []string{"There are no curves against the number of candidates: all runs had " + plural(n[0], "candidate") + "."}
	}
	return part{Notes: notes, Tables: []table{s.perStrategy(caption, head, last, func(run report.Run) []cell {
		c := run.PerChange
		cells := append(plain(median(run.Resigned.Quantiles), count(c.WakeUps), percent(1-run.Fairness.Inversions), median(run.Crashed.Quantiles),
			count(c.Operations), size(c.Bytes)), s.jain(run), cell{count(float64(run.N))})
		return cells[:len(head)]
	})}}
}

// change shows one leader change of each strategy, event by event.
func (s service) change() part {
	runs := s.most(few, func(r report.Run) bool { return r.Sample != nil && len(r.Sample.Events) > 0 })
	if len(runs) == 0 {
		return part{Missing: []string{"No leader change was recorded event by event."}}
	}
	var changes []change
	candidates := 0
	for _, run := range runs {
		c := newChange(run)
		changes, candidates = append(changes, c), max(candidates, c.rows)
	}
	from, until, cut := timeAxis(changes)
	with := plural(runs[0].N, "candidate")
	one := (candidates + mostRows - 1) / mostRows

	var panels []panel
	var longer []string
	for i, run := range runs {
		c := changes[i]
		wakeUps, vacant := plural(c.n[report.WokenUp], "wake-up"), duration(c.come-c.gone)
		panels = append(panels, panel{
			title: run.Strategy,
			note:  fmt.Sprintf("%s, no leader for %s", wakeUps, vacant),
			desc: fmt.Sprintf("A change of leader by %s with %s: no leader for %s; %s, %s, %s, %s in vain.", cause(run), with, vacant,
				wakeUps, plural(c.n[report.Read], "read"), plural(c.n[report.Wrote], "write"), plural(c.n[report.Refused], "write")),
			width: 264, tall: 400,
			draw: timeline(s.looks[run.Strategy].ink, c.shown(one), candidates, from, until),
		})
		if cut && c.still > until {
			longer = append(longer, fmt.Sprintf("%s until %s", run.Strategy, duration(c.still)))
		}
	}
	caption := fmt.Sprintf("A change of leader by %s with %s, all at one scale. The bar at the left is the term that ends, the bar at the right the one that begins.",
		cause(runs[0]), with) + s.partly(runs[0].N)
	if one > 1 {
		caption += fmt.Sprintf(" Of the candidates that do not lead, it shows one in %d.", one)
	}
	if len(longer) > 0 {
		caption += " Not all of it is drawn: candidates keep reading or writing with " + list(longer) + "."
	}
	return part{
		Picture: picture{name: "change-" + s.slug, title: "One leader change with " + with + ", by strategy", panels: panels, key: timelineKey(),
			Class: "narrow", Caption: caption},
		Missing: s.lacking("No change was recorded with %s.", runs),
		Tables: []table{s.perStrategy("The change that is drawn, in figures: a "+cause(runs[0])+".",
			[]string{"wake-ups", "no leader for", "reads", "writes", "writes in vain", "still after"},
			runs, func(run report.Run) []cell {
				c := newChange(run)
				n := func(kind report.EventKind) string { return count(float64(c.n[kind])) }
				return plain(n(report.WokenUp), duration(c.come-c.gone), n(report.Read), n(report.Wrote), n(report.Refused), duration(c.still))
			})},
	}
}

// mostRows is the number of candidates up to which a picture shows all their events. More have less than a
// pixel each, and a browser takes seconds to draw all their marks.
const mostRows = 500

// A change is a run's sample, prepared for drawing.
type change struct {
	events     []report.Event // by time; candidates by their rows
	rows       int
	n          map[report.EventKind]int
	gone, come time.Duration // the ends of the time without a leader
	still      time.Duration // the end of the last event
}

func newChange(run report.Run) change {
	c := change{events: slices.Clone(run.Sample.Events), rows: run.N, n: make(map[report.EventKind]int)}
	for i := range c.events {
		e := &c.events[i]
		c.n[e.Kind]++
		// Those that have left have no row. (A report without the list has one for each number.)
		if at, ok := slices.BinarySearch(run.Sample.Present, e.Candidate); ok {
			e.Candidate = at
		}
		c.rows = max(c.rows, e.Candidate+1)
		c.still = max(c.still, e.At+e.Took)
	}
	slices.SortStableFunc(c.events, func(a, b report.Event) int { return cmp.Compare(a.At, b.At) })
	c.gone, c.come = vacancy(c.events)
	return c
}

// shown returns the events of the leaders, and of one in so many of the other candidates.
func (c change) shown(one int) []report.Event {
	leads := make(map[int]bool)
	for _, e := range c.events {
		if e.Kind == report.Ended || e.Kind == report.Elected {
			leads[e.Candidate] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.events), func(e report.Event) bool {
		return e.Candidate%one != 0 && !leads[e.Candidate]
	})
}

// timeAxis returns the ends of the time axis of all changes, and whether it ends before one of them: it is
// cut if one takes far longer than the others, which would all be too narrow to see.
func timeAxis(changes []change) (from, until time.Duration, cut bool) {
	var ends []time.Duration
	var most time.Duration
	for _, c := range changes {
		ends = append(ends, c.still)
		most = max(most, 2*c.come) // the next leader is always visible
		for _, e := range c.events {
			from = min(from, e.At)
		}
	}
	slices.Sort(ends)
	until = ends[len(ends)-1]
	if len(ends) > 1 {
		most = max(most, 2*ends[len(ends)-2])
		until, cut = min(until, most), until > most
	}
	until = max(until+until/20, time.Microsecond)
	return min(from+from/20, -until/16), until, cut // room for the term that ends
}

func cause(run report.Run) string {
	if run.Sample.Crash {
		return "crash"
	}
	return "resignation"
}
