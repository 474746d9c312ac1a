package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
)

// unconnected returns a client that reaches nobody.
func unconnected(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	client := must.Get(clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { _ = client.Close() }) // it returns only its cancelled context's error
	return client
}

// started returns a session whose client reaches nobody.
func started(t testing.TB, lease *clientv3.LeaseGrantResponse, sent time.Time) *session {
	t.Helper()
	b := must.Get(New(unconnected(t, "127.0.0.1:1"), Config{}))(t)
	s := b.start(lease, sent)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ctx)                  // nobody can confirm it
		_ = s.Close(context.Background()) // until its goroutines have ended
	})
	return s
}

// A session is lost if the reply to Open comes when the window has passed.
func TestGrantedTooLate(t *testing.T) {
	t.Parallel()
	s := started(t, &clientv3.LeaseGrantResponse{ID: 1, TTL: 2}, time.Now().Add(-time.Minute))
	if state, err := s.AwaitState(t.Context(), backend.Live); state != backend.Lost {
		t.Errorf("state %v, error %v", state, err)
	}
}

// granted returns a session that nobody keeps alive.
func granted(ttl, window time.Duration) *session {
	s := new(session)
	s.Init(driver.LifeOptions{State: backend.Live, End: func(context.Context, error) {}})
	s.Grant("", time.Now(), ttl, ttl-window)
	return s
}

// The window ends before the time that a new leader may count from a checkpoint that was made right
// before a renewal, with what was left of the renewal before.
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

// A step of a heartbeat is not given up before its reply can arrive.
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
