package compare

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A recorder notes the events of one leader change. It ignores the others.
type recorder struct {
	mu     sync.Mutex
	noting bool
	events []event
}

type event struct {
	report.Event
	at time.Time
}

// on starts or stops noting.
func (r *recorder) on(noting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noting = noting
}

func (r *recorder) note(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noting {
		r.events = append(r.events, e)
	}
}

// happened notes an event that takes no time.
func (r *recorder) happened(candidate int, kind report.EventKind, at time.Time) {
	r.note(event{report.Event{Candidate: candidate, Kind: kind}, at})
}

// call notes a call, unless it was given up.
func (r *recorder) call(candidate int, c meter.Call) {
	kind := report.Read
	switch {
	case c.WokenUp:
		r.happened(candidate, report.WokenUp, c.End)
		return
	case c.Refused():
		kind = report.Refused
	case c.Err != nil:
		return
	case c.Kind == backend.CallCommit, c.Kind == backend.CallDiscard:
		kind = report.Wrote
	}
	r.note(event{report.Event{Candidate: candidate, Kind: kind, Took: c.End.Sub(c.Began)}, c.Began})
}

// timeline returns the events since the change began, of the present candidates, and stops noting.
func (r *recorder) timeline(began time.Time, present []int) *report.Timeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noting = false
	slices.SortStableFunc(r.events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Candidate, b.Candidate)) })
	t := &report.Timeline{Present: present, Events: make([]report.Event, len(r.events))}
	for i, e := range r.events {
		e.At = e.at.Sub(began)
		t.Events[i] = e.Event
	}
	return t
}
