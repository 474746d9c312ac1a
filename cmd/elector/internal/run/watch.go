package run

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
)

// A window is the time for which a command may run: the trust window of its term's session, which each
// heartbeat moves, less the time that killing takes.
type window struct {
	session *backend.Session
	grace   time.Duration
}

// shortest is the shortest session timeout that leaves a window.
const shortest = 500 * time.Millisecond

// reserve is how long before the end of the trust window the command is killed. The watchdog and the kernel
// need that time.
func (w window) reserve() time.Duration { return max(w.session.TTL()/10, 100*time.Millisecond) }

// warning is how long before that the command gets SIGTERM. It is no longer: while the link is down, and
// before a late heartbeat, little more than a third of the timeout is left at times.
func (w window) warning() time.Duration { return min(w.grace, w.session.TTL()/8) }

// closes returns when the command is killed, unless a heartbeat moves that.
func (w window) closes() time.Time { return w.session.Deadline().Add(-w.reserve()) }

// near reports whether it is time for the warning.
func (w window) near() bool { return time.Until(w.closes()) <= w.warning() }

// pulse is how often to look.
func (w window) pulse() time.Duration {
	return min(max(w.session.TTL()/40, 10*time.Millisecond), 250*time.Millisecond)
}

// watch makes a command end in time. It returns when the command is gone, with the reason for which it was
// ended, or "" if it has ended by itself.
//
//   - While the term holds, and must end, the command gets SIGTERM, and after the grace SIGKILL. One
//     that has not begun is killed.
//   - When the window is about to close it gets SIGTERM, and when it closes SIGKILL.
//   - When the term is over another may lead: SIGKILL.
func (r *runner) watch(ctx context.Context, t *elector.Term, w window, c *watchdog.Command) (why string) {
	log := r.Log.With("token", t.Token())
	var patience <-chan time.Time
	killed := false
	kill := func(reason string) {
		if killed {
			return
		}
		killed = true
		if why == "" {
			why = reason
		}
		log.Warn("ending the command: SIGKILL", "why", reason)
		c.Kill()
	}
	terminate := func(reason string) {
		switch {
		case why != "":
			return
		case c.PID() == 0: // it has not begun, or is gone
			kill(reason)
			return
		}
		why = reason
		log.Info("ending the command: SIGTERM", "why", why, "grace", r.Grace)
		c.Signal(syscall.SIGTERM)
		patience = time.After(r.Grace)
	}
	pulse := time.NewTicker(w.pulse())
	defer pulse.Stop()
	begun := func(pid int) { log.Info("the command has started", "pid", pid) }
	leading, over := ctx.Done(), t.Context().Done()
	for {
		c.Until(w.closes())
		select {
		case <-c.Done():
			select { // a short command may have started since
			case pid := <-c.Started():
				begun(pid)
			default:
			}
			return why
		case pid := <-c.Started():
			begun(pid)
		case <-over:
			kill(fmt.Sprintf("the term is over: %v", context.Cause(t.Context())))
			over, leading = nil, nil
		case <-patience:
			kill("the grace is over")
		case <-leading:
			if !t.Valid() {
				continue // over tells
			}
			leading = nil
			terminate(because(context.Cause(ctx)))
		case <-pulse.C:
		}
		switch {
		case !time.Now().Before(w.closes()):
			kill("the trust window is about to end")
		case w.near():
			terminate("the trust window runs down: no heartbeat is answered")
		case r.Stop && w.session.State() == backend.Suspended:
			terminate("out of touch with the service")
		}
	}
}

// because returns the reason why a current leader must go.
func because(cause error) string {
	if errors.Is(cause, elector.ErrAsked) {
		return cause.Error()
	}
	return "elector run is to end"
}
