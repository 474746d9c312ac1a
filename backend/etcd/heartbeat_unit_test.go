package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// granted is a session that nobody keeps alive.
func granted(ttl, window time.Duration) *session {
	s := new(session)
	s.Init(driver.LifeOptions{State: backend.Live, End: func(context.Context, error) {}})
	s.Grant("", time.Now(), ttl, ttl-window)
	return s
}

// A new leader may count from a checkpoint that was made right before a renewal, with what was
// left of the renewal before. The window ends before that.
func TestWindowWithCheckpoints(t *testing.T) {
	for ttl := MinSessionTimeout; ttl <= 2*time.Hour; ttl += 7 * time.Second {
		interval := granted(ttl, ttl).interval()
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

// A step that is given up before its answer can be there is of no use to anybody.
func TestPatienceOnSlowLinks(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration
		slow bool // with no time left
		want time.Duration
	}{
		{0, false, 500 * time.Millisecond},
		{0, true, 125 * time.Millisecond},
		{300 * time.Millisecond, false, 900 * time.Millisecond},
		{300 * time.Millisecond, true, 900 * time.Millisecond},
		{time.Second, false, time.Second},
	} {
		k := keeper{s: granted(4*time.Second, 0), took: tt.took, slow: tt.slow}
		if got := k.patience(); got != tt.want {
			t.Errorf("answers took %v, slow: %t: patience of %v, want %v", tt.took, tt.slow, got, tt.want)
		}
	}
}
