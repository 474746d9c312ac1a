package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// A session has no goroutine, and no timer while it is in touch: its heartbeats
// are arithmetic. They are sent and received at beat, beat+TTL/3, beat+2·TTL/3 …
// for as long as it is Live, and at beat for the last time once it is not.
type session struct {
	svc    *Service
	client *Client
	id     string
	ttl    time.Duration
	margin time.Duration
	lost   chan struct{} // closed when state becomes Lost

	// Guarded by svc.mu.
	state   backend.State
	beat    time.Time
	expires time.Time     // when the service drops it, unless it is Live
	ended   bool          // the service has dropped it
	broken  bool          // its connection is gone for a moment
	moved   chan struct{} // closed when state changes; nil: nobody waits
	timer   *time.Timer   // runs while not Live and not ended
	orphans []backend.Entry
	owned   *node // its entries
}

// Open implements backend.Backend. It never blocks: a service that is stopped and
// a process that is suspended get ErrUnavailable at once.
func (c *Client) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	s := c.svc
	s.step(Step{Client: c.name, Kind: StepOpen})
	if err := ctx.Err(); err != nil {
		return nil, wrap("open", "", err)
	}
	ttl := o.TTL
	if ttl == 0 {
		ttl = s.opts.DefaultTTL
	}
	ttl = min(max(ttl, s.opts.MinTTL), s.opts.MaxTTL)
	margin := s.opts.Margin
	if margin <= 0 {
		margin = ttl / 10
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.down() {
		return nil, wrap("open", "", backend.ErrUnavailable)
	}
	s.named++
	s.stats.Opens++
	n := &session{
		svc: s, client: c, id: fmt.Sprintf("s%d", s.named),
		ttl: ttl, margin: min(margin, ttl/2), lost: make(chan struct{}),
		state: backend.Live, beat: time.Now(),
	}
	s.sessions[n.id] = n
	c.open[n] = struct{}{}
	return n, nil
}

// Open implements backend.Backend.
func (s *Service) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	return s.self.Open(ctx, o)
}

// ID implements backend.Session.
func (n *session) ID() string { return n.id }

// TTL implements backend.Session.
func (n *session) TTL() time.Duration { return n.ttl }

// Deadline implements backend.Session.
func (n *session) Deadline() time.Time {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	return n.deadline()
}

func (n *session) deadline() time.Time {
	return n.lastBeat(time.Now()).Add(n.ttl - n.margin)
}

func (n *session) lastBeat(now time.Time) time.Time {
	if n.state != backend.Live {
		return n.beat
	}
	every := n.ttl / 3
	return n.beat.Add(now.Sub(n.beat) / every * every)
}

// State implements backend.Session.
func (n *session) State() backend.State {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	return n.now()
}

// now returns the state, after a look at the clock: the timer may be late, and a
// window that has passed must not be taken for open meanwhile.
func (n *session) now() backend.State {
	if n.state == backend.Suspended && !time.Now().Before(n.deadline()) {
		n.lose()
	}
	return n.state
}

// AwaitState implements backend.Session.
func (n *session) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	for {
		n.svc.mu.Lock()
		state, moved := n.now(), n.onMove()
		n.svc.mu.Unlock()
		if state != prev || state == backend.Lost {
			return state, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return state, wrap("await state", "", ctx.Err())
		}
	}
}

// onMove returns a channel that is closed when the state changes.
func (n *session) onMove() <-chan struct{} {
	if n.moved == nil {
		n.moved = make(chan struct{})
	}
	return n.moved
}

func (n *session) move(to backend.State) {
	n.state = to
	if n.moved != nil {
		close(n.moved)
		n.moved = nil
	}
}

// enter returns with the service locked and the session Live, as soon as it is.
func (n *session) enter(ctx context.Context, step Step) error {
	intercept := n.svc.opts.Intercept != nil
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.svc.mu.Lock()
		state := n.now()
		if state == backend.Live && !intercept {
			return nil
		}
		moved := n.onMove()
		n.svc.mu.Unlock()
		switch state {
		case backend.Lost:
			return backend.ErrSessionLost
		case backend.Live:
			step.Client, step.Session = n.client.name, n.id
			n.svc.step(step)
			intercept = false
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

func (s *Service) step(step Step) {
	if s.opts.Intercept != nil {
		s.opts.Intercept(step)
	}
}

// suspend stops the heartbeats.
func (n *session) suspend() {
	if n.state != backend.Live {
		return
	}
	n.freeze()
	n.move(backend.Suspended)
}

// freeze fixes the last heartbeat, and sees to what follows from there being no more.
func (n *session) freeze() {
	n.beat = n.lastBeat(time.Now())
	n.expires = n.beat.Add(n.ttl)
	n.watchClock(n.deadline())
}

// watchClock has tick called at t.
func (n *session) watchClock(t time.Time) {
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Until(t), n.tick)
		return
	}
	n.timer.Reset(time.Until(t))
}

// tick does what is due, by the clock: the window passes first and the service
// drops the session a margin later, never the other way round.
func (n *session) tick() {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	if n.state == backend.Live {
		return
	}
	if n.now() == backend.Suspended {
		n.watchClock(n.deadline())
		return
	}
	if n.ended || n.svc.stopped {
		return // Start sets expires anew and calls again
	}
	if time.Now().Before(n.expires) {
		n.watchClock(n.expires)
		return
	}
	n.svc.stats.Expired++
	n.end()
}

// resume brings the session back if it is not over. A heartbeat goes first, then
// what was left undone.
func (n *session) resume() {
	if n.client.down() || n.broken || n.now() != backend.Suspended {
		return
	}
	if n.ended {
		n.lose()
		return
	}
	n.timer.Stop()
	n.beat = time.Now()
	n.move(backend.Live)
	for _, e := range n.orphans {
		n.discard(e)
	}
	n.orphans = nil
}

// discard removes an entry of this session now, or when it is back in touch.
func (n *session) discard(e backend.Entry) {
	switch n.state {
	case backend.Suspended:
		n.orphans = append(n.orphans, e)
		return
	case backend.Lost:
		return // it dies with the session
	}
	have := n.svc.nodes[e.Key]
	if n.ended || have == nil || have.entry.Rev != e.Rev || have.owner != n {
		return
	}
	n.svc.rev++
	n.svc.remove(have)
}

// lose makes the session Lost for its process. The service may not know.
func (n *session) lose() {
	if n.state == backend.Lost {
		return
	}
	if n.state == backend.Live {
		n.freeze()
	}
	n.move(backend.Lost)
	n.orphans = nil
	close(n.lost)
	delete(n.client.open, n)
}

// end is the service dropping the session and all its entries, at one revision.
func (n *session) end() {
	if n.ended {
		return
	}
	n.ended = true
	if n.timer != nil {
		n.timer.Stop()
	}
	delete(n.svc.sessions, n.id)
	if n.owned != nil {
		n.svc.rev++
	}
	for n.owned != nil {
		n.svc.remove(n.owned)
	}
}

// Close implements backend.Session. It does not block. Out of touch, it returns
// ErrUnavailable, and the service drops the entries when the session times out; a
// later call may still find it in touch.
func (n *session) Close(ctx context.Context) error {
	n.svc.mu.Lock()
	n.lose()
	n.svc.mu.Unlock()
	n.svc.step(Step{Client: n.client.name, Session: n.id, Kind: StepClose})
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	switch {
	case n.client.down() || n.broken:
		return wrap("close", "", backend.ErrUnavailable)
	case !n.ended:
		n.svc.stats.Closes++
		n.end()
	}
	return nil
}

// own and disown keep the list of the session's entries.
func (n *session) own(e *node) {
	e.before, e.behind = nil, n.owned
	if n.owned != nil {
		n.owned.before = e
	}
	n.owned = e
}

func (n *session) disown(e *node) {
	if e.before != nil {
		e.before.behind = e.behind
	} else {
		n.owned = e.behind
	}
	if e.behind != nil {
		e.behind.before = e.before
	}
	e.before, e.behind = nil, nil
}
