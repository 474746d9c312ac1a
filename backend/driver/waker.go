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
