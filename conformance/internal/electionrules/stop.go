package electionrules

import (
	"slices"
	"sync"
)

// A stop is a point at which a goroutine of a candidate is held, once, until release.
type stop struct {
	a        *arena
	arrived  chan struct{}
	released chan struct{}
	release  func()
}

// reached waits until the goroutine is held.
func (s *stop) reached(what string) { arrives(s.a, what, s.arrived) }

// stops are those that are set and were not reached yet.
type stops[E any] struct {
	mu  sync.Mutex
	set []picking[E]
}

type picking[E any] struct {
	*stop
	at func(E) bool
}

// hold sets a stop at the next event that at picks.
func hold[E any](c *candidate, s *stops[E], at func(E) bool) *stop {
	next := &stop{a: c.a, arrived: make(chan struct{}), released: make(chan struct{})}
	next.release = c.atEnd(func() { close(next.released) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = append(s.set, picking[E]{next, at})
	return next
}

// pass runs on the goroutine that is to be held. It heeds no ctx.
func (s *stops[E]) pass(event E) {
	s.mu.Lock()
	i := slices.IndexFunc(s.set, func(p picking[E]) bool { return p.at(event) })
	if i < 0 {
		s.mu.Unlock()
		return
	}
	at := s.set[i]
	s.set = slices.Delete(s.set, i, i+1)
	s.mu.Unlock()
	close(at.arrived)
	<-at.released
}
