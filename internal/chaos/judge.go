package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/strategy/catalog"
)

// A result is the result of a campaign.
type result struct {
	trial      trial
	faults     []string // kinds, one for each injected fault
	terms      int
	commits    int // successful ones
	refused    int
	unknown    int
	late       int // writes tried after the end of their terms
	unfenced   unfenced
	overlaps   int
	accepted   int // writes accepted after the deposition
	ghosts     int
	outages    int           // of the service
	away       time.Duration // the longest of them
	leaderless gap           // the longest
	executed   int           // sessions that companions have ended
	violations []string
}

// unfenced describes the log that only Valid protects.
type unfenced struct {
	lines int
	// late are lines of a term after lines of a later one, and delay is the longest time from the check of
	// Valid to the write of such a line.
	late  int
	delay time.Duration
}

// judge returns what the evidence shows.
func judge(t trial, e *evidence) *result {
	r := &result{trial: t, ghosts: len(e.ghosts), violations: slices.Clone(e.wrong)}
	for _, m := range e.faults {
		r.faults = append(r.faults, m.kind.name)
	}
	for _, m := range e.outages {
		r.outages++
		r.away = max(r.away, time.Duration(m.end-m.begin))
	}
	r.executed = e.executed
	for _, l := range e.losses {
		r.violate("session", "%s of candidate %s ended %v before the candidate would have ceased to trust it", l.session, l.name, l.left)
	}
	if t.elector != "" {
		r.checkLives(e)
	} else {
		r.checkRecorded(t, e)
	}
	for _, ghost := range e.ghosts {
		r.violate("ghost", "%s is there, though all candidates have ended", ghost)
	}
	return r
}

// checkRecorded checks the candidates' own recordings.
func (r *result) checkRecorded(t trial, e *evidence) {
	promised, _ := catalog.Named(t.strategy)
	r.checkHistory(e, promised.Ordered)
	r.checkLate(e)
	r.checkLinear(e)
	r.checkLines(e)
	if promised.Dense {
		r.checkDense(e)
	}
	for _, g := range gaps(e) {
		if g.length() > r.leaderless.length() {
			r.leaderless = g
		}
		if g.length() > g.bound {
			r.violate("leaderless", "nobody led from %d to %d: %v, and %v is the bound", g.from, g.to, g.length(), g.bound)
		}
	}
}

func (r *result) violate(check, format string, args ...any) {
	r.violations = append(r.violations, check+": "+fmt.Sprintf(format, args...))
}

// checkHistory checks the history and counts its events.
func (r *result) checkHistory(e *evidence, ordered bool) {
	for _, v := range e.history.Check(history.Options{Ordered: ordered}) {
		switch v.Check {
		case history.CheckOverlap:
			r.overlaps++
		case history.CheckEnd:
			r.accepted++
		}
		r.violate(v.Check, "%s", v.Text)
	}
	r.terms = len(e.history.Terms())
	for _, c := range e.history.Events {
		switch {
		case c.Kind != history.Commit:
		case isLate(c):
			r.late++
		case c.Outcome == history.OK:
			r.commits++
		case c.Outcome == history.Refused:
			r.refused++
		default:
			r.unknown++
		}
	}
}

// isLate reports whether a commit was made after its term's end, with the term's guard but outside the
// term. Such a commit is recorded without a term.
func isLate(e history.Event) bool { return e.Kind == history.Commit && e.Term == 0 }

// checkLate finds late writes that were done although another candidate had the seat. Before that they may
// succeed: a term ends for the candidate earlier than for the service.
func (r *result) checkLate(e *evidence) {
	terms := e.history.Terms()
	for _, c := range e.history.Events {
		if !isLate(c) || c.Outcome != history.OK {
			continue
		}
		for _, t := range terms {
			if t.Token > c.Token && t.Return < c.Call {
				r.accepted++
				r.violate(history.CheckEnd, "%v; but %v had won before that began", c, t)
				break
			}
		}
	}
}

// checkLinear looks for an order of all calls that explains all results. In it a late write belongs to its
// term while the seat does. Finding no answer in time is no violation: the other checks together cover
// everything.
func (r *result) checkLinear(e *evidence) {
	h := *e.history
	h.Events = slices.Clone(h.Events)
	ids := map[uint64]uint64{}
	for _, t := range h.Terms() {
		ids[t.Token] = t.ID
	}
	for i, c := range h.Events {
		if isLate(c) {
			h.Events[i].Term = ids[c.Token]
		}
	}
	if h.Linearizable(history.Options{Patience: 20 * time.Second}).Result == porcupine.Illegal {
		r.violate("linear", "no order of all calls explains what was answered: see the drawing")
	}
}

// checkLines counts the lines that an old leader wrote after the new one, and checks that each is
// explained: Valid was asked before the new leader had won, and was right; the process was stopped between
// that and the write. No look at a clock prevents that. Fencing does.
func (r *result) checkLines(e *evidence) {
	won := map[uint64]int64{} // by when each term had certainly been won
	for _, t := range e.history.Terms() {
		won[t.Token] = t.Return
	}
	r.unfenced.lines = len(e.lines)
	var highest uint64
	for _, l := range e.lines {
		if l.Token >= highest {
			highest = l.Token
			continue
		}
		r.unfenced.late++
		r.unfenced.delay = max(r.unfenced.delay, time.Duration(l.Written-l.Asked))
		if l.Asked >= won[highest] {
			r.violate("unfenced", "%s wrote a line with token %d after one with %d, and had asked Valid at %d, when that term had begun at %d",
				l.Process, l.Token, highest, l.Asked, won[highest])
		}
	}
}

// checkDense finds tokens that were left out without explanation: a claim is lost if its candidate is
// killed or stopped, or its session ends, before the candidate knows of the claim.
func (r *result) checkDense(e *evidence) {
	terms := slices.SortedFunc(slices.Values(e.history.Terms()), func(a, b history.Event) int { return cmp.Compare(a.Token, b.Token) })
	for i := range max(len(terms)-1, 0) {
		last, next := terms[i], terms[i+1]
		if next.Token > last.Token+1 && !slices.ContainsFunc(e.faults, func(f meeting) bool {
			return f.begin < next.Return && f.end+int64(e.failover.most()+recovery) > last.Return
		}) {
			r.violate(history.CheckToken, "after token %d came %d, and there was no fault", last.Token, next.Token)
		}
	}
}
