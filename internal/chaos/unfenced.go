package main

import (
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// unfenced is what the log shows that nothing but Valid protects.
type unfenced struct {
	lines int
	// late are lines of a term after those of a later one, and delay is the longest that
	// one of these was written after Valid had been asked.
	late  int
	delay time.Duration
}

// checkLines counts the lines that an old leader wrote after the new one, and has each
// explained: Valid was asked before the new one had won, and right; the process was
// stopped between that and the write. No look at a clock can prevent that. Fencing does.
func (r *result) checkLines(h *history.History, lines []line) {
	won := map[uint64]int64{} // when a term had been won for certain
	for _, t := range h.Terms() {
		won[t.Token] = t.Return
	}
	r.unfenced.lines = len(lines)
	var highest uint64
	for _, l := range lines {
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
