package memory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A session has no goroutine, and no timer while it is in touch: its heartbeats are arithmetic. They are
// sent and received at beat, beat+TTL/3, beat+2·TTL/3 … while it is in touch, and at beat for the last time
// once it is not.
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
	expires time.Time     // when the service drops it, unless it is in touch
	notices time.Time     // zero, or when it notices that its link is dead; it is Live until then
	ended   bool          // the service has dropped it
	broken  bool          // its connection is gone for a moment
	moved   driver.Signal // of changes of state and notices
	timer   *time.Timer   // runs while not in touch and not ended
	delays  *delays       // nil: its messages take no time
	orphans []backend.Entry
	doubts  []doubt
	owned   list[node] // its entries
	// past is what it reads while its server is behind; caughtUp is closed when that ends. Otherwise both
	// are nil.
	past     *tree
	caughtUp chan struct{}
}

// delays are the delays of a session's messages.
type delays struct {
	latest [2]time.Time // when the latest one arrives, by direction
}

type direction int

const (
	toService direction = iota
	fromService
)

// Open implements backend.Backend. It blocks only while its message is on its way: if the service is
// stopped or the process is suspended, it returns ErrUnavailable.
func (c *Client) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s := c.svc
	s.step(Step{Client: c.name, Kind: StepOpen})
	err := ctx.Err()
	if err != nil {
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
	n := &session{
		svc: s, client: c, ttl: ttl, margin: min(margin, ttl/2), lost: make(chan struct{}),
		state: backend.Live, beat: time.Now(),
	}
	if s.opts.Latency != nil {
		n.delays = new(delays)
	}
	s.mu.Lock()
	granted := n.send(0, func() bool {
		if c.down() || c.killed || n.state == backend.Lost {
			return false
		}
		s.named++
		s.stats.Opens++
		n.id = fmt.Sprintf("s%d", s.named)
		if s.past != nil {
			n.past, n.caughtUp = s.past, make(chan struct{})
		}
		s.sessions[n.id] = n
		c.open[n] = struct{}{}
		return true
	})
	s.mu.Unlock()
	if granted.comes(ctx, nil) {
		return backend.NewSession("memory", n), nil
	}
	err = cmp.Or(ctx.Err(), backend.ErrUnavailable)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.id == "" {
		n.state = backend.Lost // so that it is no longer granted
	} else {
		n.lose() // the service will drop it in time
	}
	return nil, wrap("open", "", err)
}

// Open implements backend.Backend.
func (s *Service) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return s.self.Open(ctx, o)
}

// ID implements backend.Driver.
func (n *session) ID() string { return n.id }

// TTL implements backend.Driver.
func (n *session) TTL() time.Duration { return n.ttl }

// Deadline implements backend.Driver.
func (n *session) Deadline() time.Time {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	return n.deadline()
}

func (n *session) deadline() time.Time {
	return n.lastBeat(time.Now()).Add(n.ttl - n.margin)
}

func (n *session) lastBeat(now time.Time) time.Time {
	if !n.inTouch() || n.ended {
		return n.beat
	}
	every := n.ttl / 3
	return n.beat.Add(now.Sub(n.beat) / every * every)
}

// State implements backend.Driver.
func (n *session) State() backend.State {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	return n.now()
}

// inTouch reports whether messages and heartbeats get through.
func (n *session) inTouch() bool { return n.state == backend.Live && !n.silent() }

// silent reports whether its link is dead and it has not noticed.
func (n *session) silent() bool { return !n.notices.IsZero() }

// now returns the state after a look at the clock: the timer may be late, and a window that has passed must
// not count as open meanwhile.
func (n *session) now() backend.State {
	now := time.Now()
	switch {
	case n.state == backend.Lost || n.inTouch():
	case !now.Before(n.deadline()):
		n.lose()
	case n.silent() && !now.Before(n.notices):
		n.notices = time.Time{}
		n.move(backend.Suspended)
	}
	return n.state
}

// AwaitState implements backend.Driver.
func (n *session) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	for {
		n.svc.mu.Lock()
		state, moved := n.now(), n.moved.Next()
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

func (n *session) move(to backend.State) {
	n.state = to
	n.moved.Fire()
}

// enter waits until the session is in touch, and returns with the service locked.
func (n *session) enter(ctx context.Context, step Step) error {
	intercept := n.svc.opts.Intercept != nil
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.svc.mu.Lock()
		lost, inTouch := n.now() == backend.Lost, n.inTouch()
		arrives := inTouch && !intercept
		asked := arrives && step.Kind != StepWake
		turnedAway, denied := asked && n.client.throttled, asked && n.client.denied
		switch {
		case denied:
		case turnedAway:
			n.client.turned++
		case arrives:
			return nil
		}
		moved := n.moved.Next()
		n.svc.mu.Unlock()
		switch {
		case lost:
			return backend.ErrSessionLost
		case denied:
			return backend.ErrDenied
		case turnedAway:
			_ = n.sleep(ctx, n.ttl/100) // the loop finds what ended it
			continue
		case inTouch:
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

// ask sends the service a question until there is a reply, which answer computes with the service locked. A
// reply that nobody waits for changes nothing, so it takes no goroutine.
func ask[T any](ctx context.Context, n *session, step Step, answer func() T) (T, error) {
	var none T
	for {
		if err := n.enter(ctx, step); err != nil {
			return none, err
		}
		arrived, err := n.travel(ctx, toService)
		if arrived && n.unknown() {
			n.svc.mu.Unlock()
			return none, backend.ErrSessionLost
		}
		var got T
		if arrived {
			got = answer()
			arrived, err = n.travel(ctx, fromService)
		}
		if arrived {
			n.svc.mu.Unlock()
			return got, nil
		}
		if err != nil {
			return none, err
		}
	}
}

// unknown reports whether the service no longer knows the session, and then makes it Lost.
func (n *session) unknown() bool {
	if n.ended {
		n.lose()
	}
	return n.ended
}

// travel takes as long as a message of the caller's. It is called with the service locked, and leaves it
// locked if the message arrives.
func (n *session) travel(ctx context.Context, to direction) (arrived bool, err error) {
	d := n.way(to)
	if d == 0 {
		return true, nil
	}
	n.svc.mu.Unlock()
	if err := n.sleep(ctx, d); err != nil {
		return false, err
	}
	n.svc.mu.Lock()
	if !n.inTouch() {
		n.svc.mu.Unlock()
		return false, nil
	}
	return true, nil
}

// way returns how long a message of the session takes from now. It is called with the service locked.
func (n *session) way(to direction) time.Duration {
	if n.delays == nil {
		return 0
	}
	latest := &n.delays.latest[to]
	at := time.Now().Add(n.svc.opts.Latency())
	if !at.After(*latest) {
		at = latest.Add(1)
	}
	*latest = at
	return time.Until(at)
}

// sleep returns nil after d, unless the session is lost or ctx ends first.
func (n *session) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-n.lost:
		return backend.ErrSessionLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a message that takes effect even if nobody waits for it. at is called when it arrives, later
// than others by late, and reports whether the message is answered. send and at run with the service
// locked.
func (n *session) send(late time.Duration, at func() (answered bool)) answer {
	if n.delays == nil && late == 0 {
		return answer{came: at()}
	}
	back := make(chan bool, 1)
	n.svc.after(n.way(toService)+late, func() {
		if !at() {
			back <- false
			return
		}
		n.svc.after(n.way(fromService), func() { back <- !n.client.down() && !n.broken })
	})
	return answer{later: back}
}

// An answer has come at once or not at all, or reports later whether it has.
type answer struct {
	came  bool
	later <-chan bool
}

// comes reports whether the answer comes before the session is lost or ctx ends.
func (a answer) comes(ctx context.Context, lost <-chan struct{}) bool {
	if a.later == nil {
		return a.came
	}
	select {
	case came := <-a.later:
		return came
	case <-lost:
	case <-ctx.Done():
	}
	return false
}

// after calls do after d, with the service locked, as it is for the caller.
func (s *Service) after(d time.Duration, do func()) {
	if d == 0 {
		do()
		return
	}
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

func (s *Service) step(step Step) {
	if s.opts.Intercept != nil {
		s.opts.Intercept(step)
	}
}

// suspend stops the heartbeats.
func (n *session) suspend() {
	if !n.inTouch() {
		return
	}
	n.freeze()
	if d := n.svc.opts.Detect; d > 0 && !n.broken {
		n.notices = time.Now().Add(d)
		n.watchClock(n.due())
		return
	}
	n.move(backend.Suspended)
}

// due returns when the process next notices something by its clock.
func (n *session) due() time.Time {
	if n.silent() && n.notices.Before(n.deadline()) {
		return n.notices
	}
	return n.deadline()
}

// freeze fixes the last heartbeat, and the times that follow from it.
func (n *session) freeze() {
	n.beat = n.lastBeat(time.Now())
	n.expires = n.beat.Add(n.ttl)
	n.watchClock(n.deadline())
}

// watchClock makes tick run at t.
func (n *session) watchClock(t time.Time) {
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Until(t), n.tick)
		return
	}
	n.timer.Reset(time.Until(t))
}

// tick does what is due by the clock: the window passes first, and the service drops the session a margin
// later, never the other way round.
func (n *session) tick() {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	if n.inTouch() {
		if n.ended {
			n.lose() // the reply to a heartbeat: see Revoke
		}
		return
	}
	if n.now() != backend.Lost {
		n.watchClock(n.due())
		return
	}
	if n.ended || n.svc.stopped {
		return // Start sets expires again and calls again
	}
	if time.Now().Before(n.expires) {
		n.watchClock(n.expires)
		return
	}
	n.svc.stats.Expired++
	n.end()
}

// resume brings the session back if it is not over. A heartbeat goes first, then the removal of orphans.
func (n *session) resume() {
	if n.client.down() || n.broken || n.now() == backend.Lost || n.inTouch() {
		return
	}
	if n.ended {
		n.lose()
		return
	}
	n.timer.Stop()
	n.beat = time.Now()
	n.notices = time.Time{}
	n.move(backend.Live)
	for _, e := range n.orphans {
		n.discard(e)
	}
	n.orphans = nil
}

// discard removes an entry of this session now, or when it is back in touch.
func (n *session) discard(e backend.Entry) {
	switch {
	case n.state == backend.Lost:
		return // it dies with the session
	case !n.inTouch():
		n.orphans = append(n.orphans, e)
		return
	}
	n.catchUp()
	have := n.svc.nodes[e.Key]
	if n.ended || have == nil || have.entry.Rev != e.Rev || have.owner != n {
		return
	}
	n.svc.rev++
	n.svc.remove(have)
}

// view returns what the session reads.
func (n *session) view() *tree {
	if n.past != nil {
		return n.past
	}
	return &n.svc.tree
}

// catchUp makes the session read the current state from now on.
func (n *session) catchUp() {
	if n.past != nil {
		close(n.caughtUp)
		n.past, n.caughtUp = nil, nil
	}
}

// lose makes the session Lost for its process. The service may not know.
func (n *session) lose() {
	if n.state == backend.Lost {
		return
	}
	if n.inTouch() {
		n.freeze()
	}
	n.notices = time.Time{}
	n.move(backend.Lost)
	n.orphans = nil
	close(n.lost)
	delete(n.client.open, n)
}

// end makes the service drop the session and all its entries, at one revision.
func (n *session) end() {
	if n.ended {
		return
	}
	n.ended = true
	if n.timer != nil {
		n.timer.Stop()
	}
	delete(n.svc.sessions, n.id)
	if n.owned.first != nil {
		n.svc.rev++
	}
	for n.owned.first != nil {
		n.svc.remove(n.owned.first.of)
	}
}

// Close implements backend.Driver. It blocks only while its message is on its way. Out of touch, it returns
// ErrUnavailable, and the service drops the entries when the session times out; a later call may still find
// the session in touch.
func (n *session) Close(ctx context.Context) error {
	n.svc.mu.Lock()
	n.lose()
	n.svc.mu.Unlock()
	n.svc.step(Step{Client: n.client.name, Session: n.id, Kind: StepClose})
	n.svc.mu.Lock()
	if n.client.killed {
		n.svc.mu.Unlock()
		return backend.ErrSessionLost
	}
	closed := n.send(0, func() (answered bool) {
		if n.client.down() || n.broken {
			return false
		}
		if !n.ended {
			n.svc.stats.Closes++
			n.end()
		}
		return true
	})
	n.svc.mu.Unlock()
	if !closed.comes(ctx, nil) {
		return cmp.Or(ctx.Err(), backend.ErrUnavailable)
	}
	return nil
}
