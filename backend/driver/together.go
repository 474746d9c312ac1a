package driver

import (
	"slices"
	"sync"
	"time"
)

// Many elections may share a session, and come to the same point at the same moment: when another session
// ends, each of them has a leader to announce. So while some requests of a kind are on their way, those that
// become ready wait, and go together in one transaction. A session with few elections never waits.

const (
	// mostSent is how many requests of a kind are on their way before others wait.
	mostSent = 4
	// longestWait is after how much silence requests do not wait: the server that has the others may be frozen.
	longestWait = 100 * time.Millisecond
)

// A Together sends requests of one kind. Its exported fields must be set before it is used.
type Together[R comparable] struct {
	// Take moves requests that may go together from those that wait, in their order, and drops those that were given up.
	Take func(waiting []R) (batch, left []R)
	// Send sends requests, and tells each sender when they are answered.
	Send func(batch []R)
	// Run runs a function on a goroutine of the session, or returns false if the session is over.
	Run func(func()) bool

	mu      sync.Mutex
	sent    int
	last    time.Time // when one was sent or answered last
	waiting []R
	timed   bool // hurry is due
}

// Do sends a request, or lets it wait. It returns before the answer comes only if the request waits.
func (t *Together[R]) Do(r R) {
	t.mu.Lock()
	if t.sent >= mostSent && time.Since(t.last) < longestWait {
		t.waiting = append(t.waiting, r)
		if !t.timed {
			t.timed = true
			time.AfterFunc(longestWait, t.hurry)
		}
		t.mu.Unlock()
		return
	}
	t.sent, t.last = t.sent+1, time.Now()
	t.mu.Unlock()
	t.Send([]R{r})
	t.goOn()
}

// goOn sends those that wait, one batch after the other.
func (t *Together[R]) goOn() {
	batch := t.next()
	if len(batch) == 0 {
		return
	}
	if !t.Run(func() {
		for ; len(batch) > 0; batch = t.next() {
			t.Send(batch)
		}
	}) { // if the session is over, so are they
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = nil
	}
}

// hurry sends those that wait, if it is too long since one of the others was answered, and is due again.
func (t *Together[R]) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timed = len(t.waiting) > 0; !t.timed {
		return
	}
	wait := longestWait - time.Since(t.last)
	if wait <= 0 {
		t.sent, t.last, wait = t.sent+1, time.Now(), longestWait
		go t.goOn()
	}
	time.AfterFunc(wait, t.hurry)
}

// next returns what goes after a request that was answered, if any.
func (t *Together[R]) next() (batch []R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 && len(batch) == 0 {
		batch, t.waiting = t.Take(t.waiting)
	}
	if t.last = time.Now(); len(batch) == 0 {
		t.sent--
	}
	return batch
}

// Withdraw takes a request back, and reports whether it still waited.
func (t *Together[R]) Withdraw(r R) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(o R) bool { return o == r })
	return len(t.waiting) < n
}
