package backendrules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/attempt"
)

// A run is one rule being tried on a service of its own.
type run struct {
	*harness.Try
	// ctx ends when the rule has taken so long that something must hang.
	ctx context.Context

	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	sessions []sess
}

func newRun(t *harness.Try) *run {
	r := &run{Try: t}
	end := time.Now().Add(harness.Limit(t.Service))
	r.ctx, r.cancel = context.WithDeadline(context.Background(), end)
	t.Patience = func() time.Duration { return time.Until(end) }
	t.Pause, t.LongestPause = t.Service.TTL/100, t.Service.TTL/100
	t.Moment = 50 * time.Millisecond
	t.More = r.more
	return r
}

// more is told with what was seen when the rule is broken.
func (r *run) more() (text string) {
	if r.ctx.Err() != nil {
		text += fmt.Sprintf(" (after %v: it hangs)", harness.Limit(r.Service))
	}
	for i, s := range r.sessions {
		if state := s.State(); state != backend.Live {
			text += fmt.Sprintf("; session %d of %d (%s) is %v", i+1, len(r.sessions), s.ID(), state)
		}
	}
	return text
}

// End ends what the rule started: its goroutines, then its sessions.
func (r *run) End(bool) {
	r.cancel()
	r.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, s := range r.sessions {
		closing.Go(func() {
			_ = s.Close(ctx) // the rules that are about Close look at its error
		})
	}
	closing.Wait()
}

// client starts a new process.
func (r *run) client() *kit.Client { return r.Service.Client(r.T) }

// open opens a session in process c.
func (r *run) open(c *kit.Client) sess {
	r.T.Helper()
	s, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.Service.TTL})
	if err != nil {
		r.Failf("open: %v", err)
	}
	out := sess{s, r}
	r.sessions = append(r.sessions, out)
	return out
}

// session opens a session in a new process.
func (r *run) session() sess {
	r.T.Helper()
	return r.open(r.client())
}

// key returns the key of this name in the rule's own place.
func (r *run) key(name string) string { return r.Service.Root + "/" + name }

// backShare is the share of the session timeout that a session needs at most, once its service
// or its link is back, to be sure that it lives: to connect again and to be answered. What
// starves a session is as long, see package attempt.
const backShare = 4

// inTime ends the attempt as void if err says that a session was lost at its deadline, and
// what, which the rule has taken away, was back too late for it: later than a quarter of the
// timeout before the deadline that the session had when it was out of touch. What is lost
// otherwise, the rule has to judge.
func (r *run) inTime(what string, back, deadline time.Time, err error) {
	r.T.Helper()
	spare := deadline.Sub(back)
	if !errors.Is(err, backend.ErrSessionLost) || time.Now().Before(deadline) || spare > r.Service.TTL/backShare {
		return
	}
	when := fmt.Sprintf("%v before", spare.Round(time.Millisecond))
	if spare < 0 {
		when = fmt.Sprintf("%v after", -spare.Round(time.Millisecond))
	}
	attempt.Void(r.T, fmt.Sprintf("%s was back only %s the session's deadline, and the timeout is %v", what, when, r.Service.TTL))
}
