package driver

import (
	"sync"
	"time"
)

// A Window is the trust window of one session: until when the session is certain to be alive.
//
//	deadline = instant the last acknowledged heartbeat was SENT
//	           + timeout granted by the server − margin
//
// The service counts the timeout from when it RECEIVED the heartbeat, which is after the sending and before
// the reply. So counting from the sending is always safe, and counting from the reply is not. The margin
// covers anything else that may make the service count from an earlier instant, and a small difference in
// the rate of the two clocks. All instants are monotonic.
//
// Once the deadline is reached the window is over for good: a later reply does not revive it.
type Window struct {
	span   time.Duration
	passed func()

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
	over     bool
}

// NewWindow opens a window for a session whose opening request was sent at sent and was granted the given
// timeout. If the deadline is reached without another Extend, passed is called once, on a goroutine of its
// own. Call Stop when the session ends.
func NewWindow(sent time.Time, timeout, margin time.Duration, passed func()) *Window {
	w := &Window{span: max(timeout-margin, 0), passed: passed}
	w.deadline = sent.Add(w.span)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(time.Until(w.deadline), w.expire)
	return w
}

// Extend moves the deadline after a heartbeat that was sent at sent has been acknowledged. It never moves
// it back, and does nothing once the window is over.
func (w *Window) Extend(sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || !time.Now().Before(w.deadline) {
		return
	}
	// The timer is left alone: when it fires it finds the new deadline. That keeps Extend cheap, which is
	// called with every reply of the server.
	if d := sent.Add(w.span); d.After(w.deadline) {
		w.deadline = d
	}
}

// Deadline returns the end of the window.
func (w *Window) Deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline
}

// Stop ends the window without calling passed. It may be called several times.
func (w *Window) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

func (w *Window) expire() {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	if left := time.Until(w.deadline); left > 0 {
		w.timer.Reset(left)
		w.mu.Unlock()
		return
	}
	w.over = true
	w.mu.Unlock()
	w.passed()
}
