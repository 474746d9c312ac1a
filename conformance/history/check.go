package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options say what is promised beyond what every history is checked for.
type Options struct {
	// Ordered: candidates lead in the order in which they have enrolled (see Recorder.Hooks).
	Ordered bool `json:"ordered,omitempty"`
	// Dense: each token is one more than the last. That holds only where no claim can be lost before its
	// Campaign has returned.
	Dense bool `json:"dense,omitempty"`
	// Contexts: not even the Contexts of two terms are alive at the same instant. That holds only where
	// the runtime runs a timer as soon as it is due, as fake time does.
	Contexts bool `json:"contexts,omitempty"`
	// Bound: if not 0, nobody campaigns for so long after the last fault while nobody leads.
	// With a logical clock it counts ticks.
	Bound time.Duration `json:"bound,omitempty"`
	// OthersWrite: processes other than leaders also write to the keys of commits, so Linearizable checks
	// only the claims.
	OthersWrite bool `json:"othersWrite,omitempty"`
	// Patience is how long Linearizable searches. 0 means until it has an answer.
	Patience time.Duration `json:"patience,omitempty"`
}

// A Violation is something that no history may contain.
type Violation struct {
	// Check is the name of the check that found it.
	Check string
	// Text is one sentence that names the events that contradict each other.
	Text string
}

// String returns both.
func (v Violation) String() string { return v.Check + ": " + v.Text }

// Names of the checks.
const (
	CheckReading  = "reading"  // a term that is over stays over
	CheckOverlap  = "overlap"  // valid terms never overlap
	CheckToken    = "token"    // tokens rise
	CheckOrder    = "order"    // Options.Ordered
	CheckEnd      = "end"      // no guarded write after the end
	CheckOnce     = "once"     // commits are done exactly once
	CheckProgress = "progress" // Options.Bound
)

// Check returns all violations that it finds. Linearizable finds others.
func (h *History) Check(o Options) []Violation {
	var all []Violation
	for _, e := range h.elections() {
		all = append(all, e.readings()...)
		all = append(all, e.overlaps(o.Contexts)...)
		all = append(all, e.tokens(o.Dense)...)
		if o.Ordered {
			all = append(all, e.order()...)
		}
		all = append(all, e.ends()...)
		if o.Bound > 0 {
			all = append(all, e.progress(int64(o.Bound), h.Until)...)
		}
	}
	return append(all, h.once()...)
}

// An election is the part of a history that is about one election.
type election struct {
	path   string
	terms  []*term // in the order in which their campaigns returned
	events []*Event
}

// A term is what a history says about one term.
type term struct {
	Campaign *Event // that returned it
	// EnteredFrom and EnteredBy bound when its candidate enrolled for the last time before it won. EnteredFrom
	// is 0 if it is not known to have enrolled.
	EnteredFrom, EnteredBy int64
	// Held and Alive are the last readings that found it valid and its Context alive. Ended and Done are
	// the first ones that did not. They are nil if there are none.
	Held, Ended, Alive, Done *Event
	Calls                    []*Event // Commit, Proclaim, Resign
}

// Terms returns the campaigns that returned a term, in the order in which they returned.
func (h *History) Terms() []Event {
	var won []Event
	for _, e := range h.Events {
		if e.Kind == Campaign && e.done() {
			won = append(won, e)
		}
	}
	slices.SortStableFunc(won, func(a, b Event) int { return cmp.Compare(a.Return, b.Return) })
	return won
}

// elections returns the elections that the history has campaigns or other events of.
func (h *History) elections() (all []*election) {
	seen := map[string]bool{}
	for _, e := range h.Events {
		if !seen[e.Election] && (e.Election != "" || e.Kind == Campaign) {
			seen[e.Election] = true
			all = append(all, h.election(e.Election))
		}
	}
	return all
}

func (h *History) election(path string) *election {
	at := &election{path: path}
	terms := map[uint64]*term{}
	for i := range h.Events {
		e := &h.Events[i]
		if !e.in(path) {
			continue
		}
		at.events = append(at.events, e)
		if e.Kind == Campaign && e.done() {
			t := &term{Campaign: e}
			terms[e.ID] = t
			at.terms = append(at.terms, t)
		}
	}
	slices.SortStableFunc(at.terms, func(a, b *term) int { return cmp.Compare(a.Campaign.Return, b.Campaign.Return) })
	for _, e := range at.events {
		if t := terms[e.Term]; t != nil {
			t.take(e)
		}
		if e.Kind == Enter && e.done() {
			at.entered(e)
		}
	}
	return at
}

func (t *term) take(e *Event) {
	switch e.Kind {
	case Valid:
		reading(e, &t.Held, &t.Ended)
	case Context:
		reading(e, &t.Alive, &t.Done)
	case Commit, Proclaim, Resign:
		t.Calls = append(t.Calls, e)
	}
}

func reading(e *Event, last, first **Event) {
	switch {
	case e.Return == 0:
	case e.Outcome == OK && (*last == nil || e.Call > (*last).Call):
		*last = e
	case e.Outcome == Refused && (*first == nil || e.Return < (*first).Return):
		*first = e
	}
}

// entered narrows when a term's candidate enrolled for the last time in its campaign.
func (at *election) entered(e *Event) {
	for _, t := range at.terms {
		c := t.Campaign
		if c.Process != e.Process || c.Candidate != e.Candidate || e.Return < c.Call || c.Return < e.Call {
			continue
		}
		t.EnteredBy = max(t.EnteredBy, e.Return)
		if c.Call <= e.Call && e.Return <= c.Return { // certainly during this campaign
			t.EnteredFrom = max(t.EnteredFrom, e.Call)
		}
	}
}

// from returns an instant at which it had certainly begun, and had not ended if it was valid later.
func (t *term) from() int64 { return t.Campaign.Return }

// held returns the last instant at which it was certainly valid: a reading was true at some instant after
// its call, and validity only ever ends.
func (t *term) held() int64 {
	if t.Held == nil {
		return math.MinInt64
	}
	return t.Held.Call
}

func (t *term) lived() int64 {
	if t.Alive == nil {
		return math.MinInt64
	}
	return t.Alive.Call
}

// String names the term.
func (t *term) String() string { return fmt.Sprintf("%s's term %d", t.name(), t.Campaign.Token) }

// name returns the name of the term's candidate.
func (t *term) name() string { return named(t.Campaign, "candidate") }

// named returns the name of an event's candidate, or otherwise if there is none.
func named(e *Event, otherwise string) string {
	who := cmp.Or(e.Candidate, otherwise)
	if e.Process != "" {
		who += " of " + e.Process
	}
	return who
}

// between reports whether an event of the kind may have happened after s began and before o did.
func (at *election) between(kind Kind, s, o *term) bool {
	return slices.ContainsFunc(at.events, func(e *Event) bool {
		return e.Kind == kind && e.until() > s.Campaign.Call && e.Call < o.Campaign.Return
	})
}

// forced reports whether one of the two may have led while the other did, because it was removed by force
// and did not know yet.
func (at *election) forced(s, o *term) bool {
	return at.between(Force, s, o) || at.between(Force, o, s)
}

// renumbered reports whether the tokens of the two cannot be compared.
func (at *election) renumbered(s, o *term) bool {
	return at.between(Renumber, s, o) || at.between(Renumber, o, s)
}

// before reports whether s certainly held the seat before o did.
func (at *election) before(s, o *term) bool {
	if s.from() < o.Campaign.Call {
		return true // s had won before o even tried
	}
	// Some instant of s precedes one of o, and no instant of o certainly precedes one of s. Each held the
	// seat without a break, so s came first, unless o is an old term that was removed by force and
	// treated itself as valid for longer than s did.
	return s.from() < s.held() && s.from() < o.held() && o.from() >= s.held() && !at.between(Force, o, s)
}
