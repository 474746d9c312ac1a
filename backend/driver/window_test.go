package driver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend/driver"
)

// window opens a window of 10 s with 1 s margin, and reports when it has passed.
func window(sent time.Time) (*driver.Window, <-chan time.Time) {
	passed := make(chan time.Time, 2)
	return driver.NewWindow(sent, 10*time.Second, time.Second, func() { passed <- time.Now() }), passed
}

func TestWindowCountsFromTheSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(3 * time.Second) // the answer took this long
		w, passed := window(sent)
		if got, want := w.Deadline(), sent.Add(9*time.Second); !got.Equal(want) {
			t.Errorf("deadline %v after the sending, want 9s", got.Sub(sent))
		}
		if at := <-passed; !at.Equal(sent.Add(9 * time.Second)) {
			t.Errorf("passed %v after the sending, want 9s", at.Sub(sent))
		}
	})
}

func TestWindowExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w, passed := window(start)
		time.Sleep(8 * time.Second)
		w.Extend(start.Add(6 * time.Second))
		w.Extend(start.Add(2 * time.Second)) // an older answer, overtaken
		if got := w.Deadline().Sub(start); got != 15*time.Second {
			t.Errorf("deadline %v, want 15s: 6s + 9s, and never back", got)
		}
		if at := <-passed; at.Sub(start) != 15*time.Second {
			t.Errorf("passed at %v, want 15s", at.Sub(start))
		}
		if len(passed) != 0 {
			t.Error("passed was called twice")
		}
	})
}

func TestWindowDoesNotRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w, passed := window(start)
		<-passed
		w.Extend(time.Now())
		if got := w.Deadline().Sub(start); got != 9*time.Second {
			t.Errorf("deadline %v after a late answer, want 9s: over is over", got)
		}
	})
}

// At the instant of the deadline the timer may not have run yet. An answer that is
// processed just then must not revive what Deadline has said to be over.
func TestWindowDoesNotReviveAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		extend := make(chan struct{})
		time.AfterFunc(9*time.Second, func() { close(extend) }) // armed before the window's timer
		w, passed := window(start)
		<-extend
		w.Extend(start.Add(8 * time.Second))
		if got := w.Deadline().Sub(start); got != 9*time.Second {
			t.Errorf("deadline %v, want 9s", got)
		}
		<-passed
	})
}

func TestWindowStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, passed := window(time.Now())
		w.Stop()
		w.Stop()
		time.Sleep(time.Minute)
		if len(passed) != 0 {
			t.Error("passed was called after Stop")
		}
	})
}

func TestWindowWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passed := make(chan struct{})
		w := driver.NewWindow(time.Now(), time.Second, 2*time.Second, func() { close(passed) })
		<-passed
		if time.Until(w.Deadline()) > 0 {
			t.Error("a margin beyond the timeout must leave no trust at all")
		}
	})
}
