package electionrules

import (
	"slices"
	"sync"
)

// A stop is a point at which a goroutine of the implementation is held, once, until
// release.
type stop[E any] struct {
	at       func(E) bool
	reached  chan struct{}
	released chan struct{}
	once     sync.Once
}

func (s *stop[E]) release() { s.once.Do(func() { close(s.released) }) }

// stops are those that are set and were not reached yet.
type stops[E any] struct {
	mu  sync.Mutex
	set []*stop[E]
}

// add sets a stop at the next event that at picks.
func (s *stops[E]) add(at func(E) bool) *stop[E] {
	next := &stop[E]{at: at, reached: make(chan struct{}), released: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = append(s.set, next)
	return next
}

// pass runs on the goroutine that is to be held. It heeds no ctx.
func (s *stops[E]) pass(event E) {
	s.mu.Lock()
	i := slices.IndexFunc(s.set, func(s *stop[E]) bool { return s.at(event) })
	if i < 0 {
		s.mu.Unlock()
		return
	}
	at := s.set[i]
	s.set = slices.Delete(s.set, i, i+1)
	s.mu.Unlock()
	close(at.reached)
	<-at.released
}
