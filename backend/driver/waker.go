package driver

// A Waker wakes one goroutine that waits by receiving from it. A wake-up that comes before the wait is
// kept, and several are one. Make it with NewWaker.
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

// A Signal wakes all goroutines that receive from what Next returns. Its zero value is ready to use. A
// mutex guards it, and the state that it is about: a waiter calls Next before it unlocks the mutex.
type Signal struct{ next chan struct{} }

// Next returns a channel that the next Fire closes.
func (s *Signal) Next() <-chan struct{} {
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Fire wakes all waiters.
func (s *Signal) Fire() {
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
