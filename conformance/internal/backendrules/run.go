package backendrules

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

// A run is the attempt at one rule on a service of its own.
type run struct {
	*harness.Try
	// ctx ends when the rule has taken so long that something must hang.
	ctx context.Context

	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	sessions []sess
	place    string // of the case, below the rule's own place
	cases    int
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

// more returns what is printed after what was seen when the rule is broken.
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
			_ = s.Close(ctx) // the rules about Close check its error
		})
	}
	closing.Wait()
}

func (r *run) client() *kit.Client { return r.Service.Client(r.T) }

// open opens a session in process c.
func (r *run) open(c *kit.Client) sess { return r.openFor(c, r.Lasting()) }

// brief opens a session whose timeout is TTL in process c, for a rule that waits longer than that.
func (r *run) brief(c *kit.Client) sess { return r.openFor(c, r.Service.TTL) }

func (r *run) openFor(c *kit.Client, ttl time.Duration) sess {
	s, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: ttl})
	r.Must("open", err)
	out := sess{s, r}
	r.sessions = append(r.sessions, out)
	return out
}

// soon fails the rule if the entries went so late after what ended the session that it may have timed out
// by itself: after its TTL, less the third or so since the last heartbeat.
func (s sess) soon(what string, began time.Time) {
	took := time.Since(began)
	s.r.FailIf(took > s.TTL()/2, "the entries were gone only %v after %s, and the session's timeout is %v", took, what, s.TTL())
}

// session opens a session in a new process.
func (r *run) session() sess { return r.open(r.client()) }

// times is how often to try something on a real service, and on a virtual one, where it costs no time.
func (r *run) times(real, virtual int) int {
	if r.Service.Virtual {
		return virtual
	}
	return real
}

// pair opens sessions in two processes, and makes a directory that both see.
func (r *run) pair() (s, other sess, dir string) {
	_, s, other, dir = r.process((*run).open)
	return s, other, dir
}

// process is pair for a rule that does something to the first process.
func (r *run) process(open func(*run, *kit.Client) sess) (c *kit.Client, s, other sess, dir string) {
	c = r.client()
	s, other = open(r, c), r.session()
	dir = s.dir("d")
	other.sees(s.get(dir))
	return c, s, other, dir
}

// in tries one case of the rule, with keys of its own.
func (r *run) in(what string, try func()) {
	r.cases++
	r.State, r.place = what, fmt.Sprintf("/case%d", r.cases)
	try()
	r.State, r.place = "", ""
}

// key returns the key of this name in the rule's own place.
func (r *run) key(name string) string { return r.Service.Root + r.place + "/" + name }
