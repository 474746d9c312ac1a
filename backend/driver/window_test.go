package driver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/driver"
)

// window opens a window of 10 s with a margin of 1 s, and reports when it has passed.
func window(sent time.Time) (*driver.Window, <-chan time.Time) {
	passed := make(chan time.Time, 2)
	return driver.NewWindow(sent, 10*time.Second, time.Second, func() { passed <- time.Now() }), passed
}

// All times are in seconds after the first sending.
func TestWindow(t *testing.T) {
	for name, c := range map[string]struct {
		opened   int   // when the reply came
		extended int   // when other replies came
		sent     []int // when their requests were sent
		passes   int
	}{
		"it counts from the sending":           {3, 3, nil, 9},
		"it is extended, and never back":       {0, 8, []int{6, 2}, 15}, // the older reply was overtaken
		"a late answer does not bring it back": {0, 10, []int{10}, 9},
		// In a bubble timers run only when all goroutines wait: here the window's has not run.
		"nor does one at the deadline itself": {9, 9, []int{8}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
				time.Sleep(time.Until(after(c.opened)))
				w, passed := window(start)
				time.Sleep(time.Until(after(c.extended)))
				for _, sent := range c.sent {
					w.Extend(after(sent))
				}
				assert.Equal(t, after(c.passes), w.Deadline())
				assert.Equal(t, after(c.passes), <-passed)
				time.Sleep(time.Minute)
				assert.Empty(t, passed, "it passes once")
			})
		})
	}
}

func TestWindowStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, passed := window(time.Now())
		w.Stop()
		w.Stop()
		time.Sleep(time.Minute)
		assert.Empty(t, passed)
	})
}

func TestWindowWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passed := make(chan struct{})
		w := driver.NewWindow(time.Now(), time.Second, 2*time.Second, func() { close(passed) })
		<-passed
		assert.LessOrEqual(t, time.Until(w.Deadline()), time.Duration(0), "a margin beyond the timeout leaves no trust at all")
	})
}
