package etcd

import (
	"testing"
	"time"
)

// A new leader may count from a checkpoint that was made right before a renewal, with what was
// left of the renewal before. The window ends before that.
func TestWindowWithCheckpoints(t *testing.T) {
	for ttl := MinSessionTimeout; ttl <= 2*time.Hour; ttl += 7 * time.Second {
		interval := (&session{ttl: ttl}).interval()
		for _, since := range []time.Duration{0, interval, interval + time.Second, ttl / 8, ttl / 2, 7 * ttl / 8} {
			window := ttl - ttl/marginPart - behind(ttl, since)
			left := ttl
			if ttl > checkpointed {
				left -= since
			}
			if window+ttl/50 > left && since > 0 {
				t.Errorf("timeout %v, %v since the last renewal: window %v, and %v may be left", ttl, since, window, left)
			}
		}
		if full := behind(ttl, interval); full != 0 {
			t.Errorf("timeout %v: %v of the window are left out though nothing is late", ttl, full)
		}
	}
}
