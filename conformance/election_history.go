package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
)

// A history records what all candidates of an election saw, and checks it.
//
// Its clock is a counter: each reading of a term lies between two ticks, so that
// two terms are found to overlap only if there was an instant at which both were
// certainly valid, however the goroutines were scheduled.
type history struct {
	clock atomic.Uint64
	began time.Time

	mu    sync.Mutex
	terms []*span
	lines []string
	wrong []string // found while recording
}

// A span is one term as it was seen. A term's validity and its Context only ever
// end, so each held in the whole of its stretch.
type span struct {
	candidate string
	token     uint64
	term      *elector.Term
	from      uint64 // when Campaign had returned it
	until     uint64 // when its Context was seen done; 0: not yet

	valid, alive stretch
	over         bool // Valid has been false
}

// A stretch reaches from the first tick after something was true to the last one
// before it was. It is empty until it has been true twice.
type stretch struct{ first, last uint64 }

func (s *stretch) add(before, after uint64) {
	if s.first == 0 || after < s.first {
		s.first = after
	}
	s.last = max(s.last, before)
}

func (s stretch) overlaps(o stretch) bool {
	return s.first != 0 && o.first != 0 && max(s.first, o.first) < min(s.last, o.last)
}

func newHistory() *history { return &history{began: time.Now()} }

// note adds a line to what is printed when a rule fails.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := fmt.Sprintf("%10v  ", time.Since(h.began).Round(10*time.Microsecond)) + fmt.Sprintf(format, args...)
	h.lines = append(h.lines, line)
}

// blame records what is wrong, for a goroutine that must not fail the rule itself.
func (h *history) blame(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// tail returns the last lines.
func (h *history) tail() string {
	const most = 60
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	if len(lines) > most {
		lines = append([]string{"…"}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n\t")
}

// begin records a term that Campaign has returned, and follows it to its end on a
// goroutine of its own.
func (h *history) begin(candidate string, t *elector.Term, every time.Duration) {
	s := &span{candidate: candidate, token: t.Token(), term: t, from: h.clock.Add(1)}
	h.mu.Lock()
	h.terms = append(h.terms, s)
	h.mu.Unlock()
	h.look()
	go h.follow(s, every)
}

// look reads all terms that are not over. A new leader is the moment to do it: if
// an old one still holds, the two readings of the new one enclose that of the old.
func (h *history) look() {
	h.mu.Lock()
	terms := append([]*span(nil), h.terms...)
	h.mu.Unlock()
	for range 2 {
		for i := len(terms) - 1; i >= 0; i-- {
			h.read(terms[i])
		}
	}
}

// read looks once at a term. It returns false when the term is over.
func (h *history) read(s *span) bool {
	h.mu.Lock()
	over, until := s.over, s.until
	h.mu.Unlock()
	if over && until != 0 {
		return false
	}
	before := h.clock.Add(1)
	done := s.term.Context().Err() != nil
	between := h.clock.Add(1)
	valid := s.term.Valid()
	after := h.clock.Add(1)

	h.mu.Lock()
	defer h.mu.Unlock()
	if !done {
		s.alive.add(before, between)
	} else if s.until == 0 {
		s.until = between
	}
	switch {
	case valid && done:
		h.wrong = append(h.wrong, fmt.Sprintf("%s: Valid was true after Context was done", s))
	case valid && over:
		h.wrong = append(h.wrong, fmt.Sprintf("%s: Valid was true again after it had been false", s))
	case valid:
		s.valid.add(between, after)
	default:
		s.over = true
	}
	return !done
}

func (h *history) follow(s *span, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for h.read(s) {
		select {
		case <-tick.C:
		case <-s.term.Context().Done():
		}
	}
	h.note("%s: term is over: %v", s, context.Cause(s.term.Context()))
}

func (s *span) String() string { return fmt.Sprintf("%s's term %d", s.candidate, s.token) }

// verdict is what a check found: one line per violation.
type verdict []string

// overlaps finds terms that were valid at the same instant. With contexts it also
// finds Contexts that lived at the same instant.
func (h *history) overlaps(contexts bool) verdict {
	h.look()
	h.mu.Lock()
	defer h.mu.Unlock()
	var v verdict
	for i, s := range h.terms {
		for _, o := range h.terms[:i] {
			switch {
			case s.valid.overlaps(o.valid):
				v = append(v, fmt.Sprintf("%s and %s were valid at the same instant", o, s))
			case contexts && s.alive.overlaps(o.alive):
				v = append(v, fmt.Sprintf("the Contexts of %s and %s lived at the same instant", o, s))
			}
		}
	}
	return v
}

// tokens finds readings of terms that contradict each other, and, if tokens rise,
// those that did not from a term to a later one. Of two terms one is the later only
// if it began after the other was over.
func (h *history) tokens(rise bool) verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	var v verdict
	for i, s := range h.terms {
		if s.token == 0 {
			v = append(v, fmt.Sprintf("%s has token 0", s))
		}
		if !rise {
			continue
		}
		for _, o := range h.terms[:i] {
			later, sooner := s, o
			if o.from > s.from {
				later, sooner = o, s
			}
			switch {
			case s.token == o.token:
				v = append(v, fmt.Sprintf("%s and %s have the same token", o, s))
			case sooner.until != 0 && sooner.until < later.from && later.token < sooner.token:
				v = append(v, fmt.Sprintf("%s came after %s, with a lower token", later, sooner))
			}
		}
	}
	return append(v, h.wrong...)
}

// order returns who led, one after the other.
func (h *history) order() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, s := range h.terms {
		names = append(names, s.candidate)
	}
	return names
}

// count returns the number of terms so far.
func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.terms)
}
