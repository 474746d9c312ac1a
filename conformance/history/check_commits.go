package history

import (
	"math"
	"slices"
	"strings"
)

// ends finds writes that were done although their term was over.
func (at *election) ends() (v []Violation) {
	for _, t := range at.terms {
		over, why := at.over(t)
		for _, c := range t.Calls {
			if c.Kind != Resign && c.done() && over < c.Call {
				v = append(v, violation(CheckEnd, "a %s of %s began at %d and was done, after %s at %d", c.Kind, t, c.Call, why, over))
			}
		}
	}
	return v
}

// over returns the first instant at which a term was certainly over, and the reason.
func (at *election) over(t *term) (over int64, why string) {
	over = math.MaxInt64
	is := func(instant int64, tells string) {
		if instant < over {
			over, why = instant, tells
		}
	}
	if t.Done != nil {
		is(t.Done.Return, "its Context was seen done")
	}
	for _, c := range t.Calls {
		if c.Kind == Resign && c.done() {
			is(c.Return, "it had resigned")
		}
	}
	for _, o := range at.terms {
		if o.Campaign.Token > t.Campaign.Token && o.from() < over && !at.renumbered(t, o) {
			is(o.from(), o.String()+" had begun")
		}
	}
	return over, why
}

// once compares the commits with the values that the registers have held.
func (h *History) once() (v []Violation) {
	ledgers := map[string]*Event{} // the last of each key
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == Ledger && e.done() {
			if last := ledgers[e.Key]; last == nil || last.Call < e.Call {
				ledgers[e.Key] = e
			}
		}
	}
	for _, l := range ledgers {
		v = append(v, h.book(l)...)
	}
	slices.SortFunc(v, func(a, b Violation) int { return strings.Compare(a.Text, b.Text) })
	return v
}

// book checks one ledger.
func (h *History) book(l *Event) (v []Violation) {
	at := map[string][]int{} // the indexes of a value in the ledger
	for i, value := range l.Values {
		at[value] = append(at[value], i)
	}
	by := make([]*Event, len(l.Values)) // the commit that wrote it
	for i := range h.Events {
		c := &h.Events[i]
		if c.Kind != Commit {
			continue
		}
		for _, w := range c.Writes {
			if w.Key != l.Key || w.Op == Delete {
				continue
			}
			found := at[w.Value]
			for _, n := range found {
				if other := by[n]; other != nil {
					v = append(v, violation(CheckOnce, "%s and %s wrote the same value %q to %s: write different values", other, c, w.Value, l.Key))
				}
				by[n] = c
			}
			switch {
			case len(found) > 1:
				v = append(v, violation(CheckOnce, "%q is in %s %d times: %s", w.Value, l.Key, len(found), c))
			case len(found) == 1 && c.Outcome == Refused:
				v = append(v, violation(CheckOnce, "%q is in %s, though it was refused: %s", w.Value, l.Key, c))
			case len(found) == 0 && c.done() && c.Return < l.Call:
				v = append(v, violation(CheckOnce, "%q is not in %s, though it was committed: %s", w.Value, l.Key, c))
			case len(found) == 1 && c.Call > l.until():
				v = append(v, violation(CheckOnce, "%q is in %s before it was committed: %s", w.Value, l.Key, c))
			}
		}
	}
	return append(v, h.sequence(l, by)...)
}

// sequence finds values of a ledger that no commit wrote, or that are not in the order of the commits and
// of their tokens.
func (h *History) sequence(l *Event, by []*Event) (v []Violation) {
	var last *Event   // with the highest token
	var latest *Event // with the latest call
	for i, c := range by {
		if c == nil {
			v = append(v, violation(CheckOnce, "%q is in %s, but no commit wrote it", l.Values[i], l.Key))
			continue
		}
		if latest != nil && c.done() && c.Return < latest.Call {
			v = append(v, violation(CheckOnce, "in %s, %s comes before %s, though the second was done before the first began", l.Key, latest, c))
		}
		if latest == nil || c.Call > latest.Call {
			latest = c
		}
		if last != nil && last.Election == c.Election && c.Token < last.Token && !h.renumbered(c, last) {
			v = append(v, violation(CheckEnd, "in %s, %s comes before %s, which is of an older term", l.Key, last, c))
		}
		if last == nil || c.Token > last.Token {
			last = c
		}
	}
	return v
}

// renumbered reports whether tokens may have restarted between two commits.
func (h *History) renumbered(a, b *Event) bool {
	return slices.ContainsFunc(h.Events, func(e Event) bool {
		return e.Kind == Renumber && e.in(a.Election) && e.Call < max(a.until(), b.until())
	})
}
