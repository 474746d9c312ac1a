package asynclog

import (
	"sync"
	"time"
)

// A Limit limits how often something is logged: ten times, and then once a minute. Each minute without
// a message gives one of the ten back. The zero Limit is ready.
type Limit struct {
	mu      sync.Mutex
	spent   int       // how many of the ten are used
	since   time.Time // from when on minutes give back
	leftOut int
}

// Allow reports whether it may be logged now, and how many messages were left out before.
func (o *Limit) Allow(now time.Time) (leftOut int, allowed bool) {
	const most, each = 10, time.Minute
	o.mu.Lock()
	defer o.mu.Unlock()
	if back := int(now.Sub(o.since) / each); o.spent > 0 && back > 0 {
		o.spent = max(0, o.spent-back)
		o.since = o.since.Add(time.Duration(back) * each)
	}
	if o.spent == 0 {
		o.since = now
	}
	if o.spent == most {
		o.leftOut++
		return 0, false
	}
	o.spent++
	leftOut, o.leftOut = o.leftOut, 0
	return leftOut, true
}
