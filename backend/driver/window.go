package driver

import (
	"sync"
	"time"
)

// A Window is the trust window of one session: until when it is sure to live.
//
//	deadline = instant the last acknowledged heartbeat was SENT
//	           + timeout granted by the server − margin
//
// The service counts the timeout from when it RECEIVED the heartbeat, which is
// later than the sending and earlier than the answer. So counting from the
// sending is safe whatever the network does, and counting from the answer is not.
// The margin covers what else may make the service count from earlier, and a
// small difference in the rate of the two clocks. All instants are monotonic.
//
// Once the deadline is reached the window is over for good: an answer that comes
// later does not revive it.
type Window struct {
	span   time.Duration
	passed func()

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
	over     bool
}

// NewWindow opens a window for a session whose opening request was sent at sent
// and was granted the given timeout. When the deadline is reached without another
// Extend, passed is called once, on a goroutine of its own. Stop it when the
// session ends.
func NewWindow(sent time.Time, timeout, margin time.Duration, passed func()) *Window {
	w := &Window{span: max(timeout-margin, 0), passed: passed}
	w.deadline = sent.Add(w.span)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(time.Until(w.deadline), w.expire)
	return w
}

// Extend moves the deadline after a heartbeat that was sent at sent has been
// acknowledged. It never moves it back, and does nothing once the window is over.
func (w *Window) Extend(sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || !time.Now().Before(w.deadline) {
		return
	}
	// The timer is left alone: when it fires it finds the new deadline. That
	// keeps Extend cheap, for it is called with every answer of the server.
	if d := sent.Add(w.span); d.After(w.deadline) {
		w.deadline = d
	}
}

// Deadline is the end of the window.
func (w *Window) Deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline
}

// Stop ends the window without a call of passed. It may be called several times.
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
