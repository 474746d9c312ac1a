package driver

// A Waker wakes one who waits by receiving from it. A wake-up that comes before is kept, and several
// are one. Make it with NewWaker.
type Waker chan struct{}

// NewWaker returns a Waker.
func NewWaker() Waker { return make(Waker, 1) }

// Wake does not block.
func (w Waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// A Signal wakes all who wait: they receive from what Next returns. Its zero value is ready. A mutex
// guards it, and what it tells of: who waits has called Next before it was unlocked.
type Signal struct{ next chan struct{} }

// Next returns a channel that the next Fire closes.
func (s *Signal) Next() <-chan struct{} {
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Fire wakes all.
func (s *Signal) Fire() {
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
