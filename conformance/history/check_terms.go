package history

import (
	"cmp"
	"fmt"
	"slices"
)

// readings finds terms that were valid after they were over.
func (at *election) readings() (v []Violation) {
	for _, t := range at.terms {
		if t.Held != nil && t.Done != nil && t.Held.Call > t.Done.Return {
			v = append(v, violation(CheckReading, "Valid of %s was true at %d, after its Context was seen done at %d", t, t.Held.Call, t.Done.Return))
		}
		if t.Held != nil && t.Ended != nil && t.Held.Call > t.Ended.Return {
			v = append(v, violation(CheckReading, "Valid of %s was true at %d again, after it had been false at %d", t, t.Held.Call, t.Ended.Return))
		}
		if t.Alive != nil && t.Done != nil && t.Alive.Call > t.Done.Return {
			v = append(v, violation(CheckReading, "the Context of %s was alive at %d, after it was seen done at %d", t, t.Alive.Call, t.Done.Return))
		}
	}
	return v
}

// overlaps finds terms that were valid, or whose Contexts were alive, at the same instant.
func (at *election) overlaps(contexts bool) (v []Violation) {
	for i, s := range at.terms {
		for _, o := range at.terms[:i] {
			from := max(s.from(), o.from())
			valid, lived := min(s.held(), o.held()), min(s.lived(), o.lived())
			switch {
			case from < valid && !at.forced(s, o):
				v = append(v, violation(CheckOverlap, "%s and %s were valid at the same instant, from %d to %d", o, s, from, valid))
			case contexts && from < lived && !at.forced(s, o):
				v = append(v, violation(CheckOverlap, "the Contexts of %s and %s were alive at the same instant, from %d to %d", o, s, from, lived))
			}
		}
	}
	return v
}

// tokens finds terms whose tokens do not rise.
func (at *election) tokens(dense bool) (v []Violation) {
	for i, s := range at.terms {
		if s.Campaign.Token == 0 {
			v = append(v, violation(CheckToken, "%s has no token", s))
		}
		for _, o := range at.terms[:i] {
			sooner, later := o, s
			if at.before(s, o) {
				sooner, later = s, o
			}
			switch a, b := sooner.Campaign.Token, later.Campaign.Token; {
			case a < b, at.renumbered(s, o):
			case a == b:
				v = append(v, violation(CheckToken, "%s and %s have the same token", o, s))
			case at.before(sooner, later):
				v = append(v, violation(CheckToken, "%s came after %s, with a lower token", later, sooner))
			}
		}
	}
	if dense {
		v = append(v, at.dense()...)
	}
	return v
}

func (at *election) dense() (v []Violation) {
	sorted := slices.SortedFunc(slices.Values(at.terms), func(a, b *term) int { return cmp.Compare(a.Campaign.Token, b.Campaign.Token) })
	for i := range max(len(sorted)-1, 0) {
		s, o := sorted[i], sorted[i+1]
		if o.Campaign.Token > s.Campaign.Token+1 && !at.renumbered(s, o) {
			v = append(v, violation(CheckToken, "after %s came %s, but its token is not the next one", s, o))
		}
	}
	return v
}

// order finds candidates that led before others that had enrolled before them.
func (at *election) order() (v []Violation) {
	for _, s := range at.terms {
		for _, o := range at.terms {
			if s.EnteredFrom > 0 && s.EnteredBy < o.EnteredFrom && at.before(o, s) {
				v = append(v, violation(CheckOrder, "%s came before %s, which had enrolled at %d, while the other began to enrol only at %d",
					o, s, s.EnteredBy, o.EnteredFrom))
			}
		}
	}
	return v
}

// progress finds a campaign during which nobody led for as long as bound, after the last fault.
func (at *election) progress(bound, until int64) []Violation {
	var healed int64
	for _, e := range at.events {
		if e.Kind == Fault {
			healed = max(healed, e.until())
		}
	}
	for _, e := range at.events {
		if e.Kind != Campaign || healed > until {
			continue
		}
		from := max(healed, e.Call)
		to := from + bound
		if to > until || e.until() <= to || slices.ContainsFunc(at.terms, func(t *term) bool { return t.led(from, to) }) {
			continue
		}
		return []Violation{violation(CheckProgress, "nobody led from %d to %d, though all faults had ended at %d, and %s campaigned",
			from, to, healed, e.Candidate)}
	}
	return nil
}

// led reports whether the term certainly began or held between two instants.
func (t *term) led(from, to int64) bool {
	return t.from() <= to && max(t.from(), t.held()) >= from
}

func violation(check, format string, args ...any) Violation {
	return Violation{check, fmt.Sprintf(format, args...)}
}
