package memory

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Match picks the commit that a fault is for, by its ops.
type Match func(ops []backend.Op) bool

// Any picks every commit.
func Any([]backend.Op) bool { return true }

// Kind picks commits with an op of this kind.
func Kind(kind backend.OpKind) Match {
	return func(ops []backend.Op) bool {
		return slices.ContainsFunc(ops, func(op backend.Op) bool { return op.Kind == kind })
	}
}

// Key picks commits with an op on this key; for Enqueue it is the directory's.
func Key(key string) Match {
	return func(ops []backend.Op) bool {
		return slices.ContainsFunc(ops, func(op backend.Op) bool { return op.Key == key })
	}
}

type faultKind int

const (
	loseReply faultKind = iota + 1
	cutReply
	loseRequest
	delayReply
	delayRequest
)

type fault struct {
	kind  faultKind
	match Match
	delay time.Duration
}

// underWay returns how late the request is.
func (f fault) underWay() time.Duration {
	if f.kind == delayRequest {
		return f.delay
	}
	return 0
}

func (c *Client) arm(f fault) {
	if f.match == nil {
		f.match = Any
	}
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// fault returns the first fault for ops, which it disarms, or none. Matches are the user's, and may call
// the service, which is unlocked meanwhile. If still is false, nothing is disarmed and the commit must enter
// again: the session is lost or out of touch, its requests are denied or throttled, or another commit has
// met the fault.
func (n *session) fault(ops []backend.Op) (f fault, still bool) {
	c := n.client
	if len(c.faults) == 0 {
		return fault{}, true
	}
	armed := slices.Clone(c.faults)
	n.svc.mu.Unlock()
	at := slices.IndexFunc(armed, func(f *fault) bool { return f.match(ops) })
	n.svc.mu.Lock()
	if n.now() == backend.Lost || !n.inTouch() || c.denied || c.throttled {
		return fault{}, false
	}
	if at < 0 {
		return fault{}, true
	}
	i := slices.Index(c.faults, armed[at])
	if i < 0 { // another commit has met it
		return fault{}, false
	}
	c.faults = slices.Delete(c.faults, i, i+1)
	return *armed[at], true
}

// LoseReply makes the service apply the next commit that match picks (nil: any), and lose the reply: the
// connection breaks at that instant and is restored at once. Commit finds out what happened before it
// returns, as rule 5 demands. The fault fires once; several armed faults fire in their order.
//
// match may call the service, and so break something at that instant: then it may be called again for the
// same commit. Several goroutines may call it.
func (c *Client) LoseReply(match Match) { c.arm(fault{kind: loseReply, match: match}) }

// CutReply is LoseReply, but the process stays suspended until Resume. Until then Commit cannot know the
// outcome and blocks; if its ctx ends or the session is lost meanwhile, it returns ErrIndeterminate.
func (c *Client) CutReply(match Match) { c.arm(fault{kind: cutReply, match: match}) }

// LoseRequest keeps the next commit that match picks from the service: the connection breaks and is
// restored at once. Commit finds that nothing was done, and sends it again.
func (c *Client) LoseRequest(match Match) { c.arm(fault{kind: loseRequest, match: match}) }

// DelayReply makes the service apply the next commit that match picks at once, and reply after d. If ctx
// ends first, Commit returns ErrIndeterminate.
func (c *Client) DelayReply(match Match, d time.Duration) {
	c.arm(fault{kind: delayReply, match: match, delay: d})
}

// DelayRequest makes the next commit that match picks arrive d later; others of the same session may
// overtake it. If ctx ends or the session is lost first, Commit returns ErrIndeterminate, and the commit
// happens all the same when it arrives, unless the service has dropped the session by then, or a later
// commit of the session has written to one of its keys. Entries that it creates and nobody waits for are
// removed at once.
func (c *Client) DelayRequest(match Match, d time.Duration) {
	c.arm(fault{kind: delayRequest, match: match, delay: d})
}

// DelayWakeups makes Await and AwaitList notice changes d later, from now on. Zero ends it.
func (c *Client) DelayWakeups(d time.Duration) {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.delay = d
}

// HoldWakeups keeps Await and AwaitList from noticing changes until release is called, which may be called
// several times. Everything else continues.
func (c *Client) HoldWakeups() (release func()) {
	gate := make(chan struct{})
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.held = append(c.held, gate)
	return func() {
		c.svc.mu.Lock()
		defer c.svc.mu.Unlock()
		if i := slices.Index(c.held, gate); i >= 0 {
			c.held = slices.Delete(c.held, i, i+1)
			close(gate)
		}
	}
}

// Throttle makes the service turn away the process's requests until release is called: calls ask again
// after pauses of a hundredth of the session timeout. Heartbeats and wake-ups continue. release returns how
// many requests there were.
func (c *Client) Throttle() (release func() int) {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.throttled, c.turned = true, 0
	return func() int {
		c.svc.mu.Lock()
		defer c.svc.mu.Unlock()
		c.throttled = false
		return c.turned
	}
}

// Deny withdraws the process's rights to read and to write until release is called: calls return
// backend.ErrDenied. Heartbeats and wake-ups continue.
func (c *Client) Deny() (release func()) {
	set := func(denied bool) {
		c.svc.mu.Lock()
		defer c.svc.mu.Unlock()
		c.denied = denied
	}
	set(true)
	return func() { set(false) }
}

// Suspend cuts the link: heartbeats, calls and wake-ups stop. The sessions become Suspended as soon as the
// process notices (Options.Detect), and Lost when their windows pass; a margin later the service drops
// them.
func (c *Client) Suspend() {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.suspend()
}

func (c *Client) suspend() {
	c.cut = true
	for n := range c.open {
		n.suspend()
	}
}

// Resume ends Suspend. Sessions that are not over become Live again; those that the service has dropped
// meanwhile become Lost.
func (c *Client) Resume() {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.cut = false
	c.resume()
}

func (c *Client) resume() {
	for n := range c.open {
		n.resume()
	}
}

// Expire makes the service drop all sessions of the process now, as if they had timed out. The process
// learns of it at once, or on Resume if it is suspended.
func (c *Client) Expire() {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	for _, n := range c.svc.sessions {
		if n.client != c {
			continue
		}
		// A process in touch learns of it first.
		if n.inTouch() {
			n.lose()
		}
		c.svc.stats.Expired++
		n.end()
		if n.state != backend.Lost {
			n.watchClock(n.due()) // end stopped the timer that ends the window
		}
	}
}

// Revoke ends all sessions of the process in the service, as an operator does. As with Expire the service
// drops them now, but the process is the last to learn of it, after others have seen that its entries are
// gone: with the reply to its next call, with the notice of a change that it waits for, or with the reply
// to a heartbeat, within a third of the timeout.
func (c *Client) Revoke() {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	for _, n := range c.svc.sessions {
		if n.client == c {
			c.svc.stats.Expired++
			n.revoke()
		}
	}
}

func (n *session) revoke() {
	if n.inTouch() {
		n.beat = n.lastBeat(time.Now())
		n.end()
		n.watchClock(n.beat.Add(n.ttl / 3))
	} else {
		n.end()
		n.watchClock(n.due()) // end stopped the timer that ends the window
	}
}

// Kill makes the process die. It sends nothing more, for good: its sessions are Lost at once to anybody who
// still holds one, and calls return backend.ErrSessionLost. Messages on their way arrive. The service drops
// the sessions when they time out, or before that if somebody executes their wills, which Kill returns, as
// a companion of the process does:
//
//	for _, will := range dead.Kill() {
//		err := backend.Execute(ctx, service, will)
//	}
func (c *Client) Kill() []backend.Will {
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	c.killed = true
	var wills []backend.Will
	for _, n := range c.svc.sessions {
		if n.client == c {
			n.lose()
			wills = append(wills, backend.Will{Service: c.String(), Session: n.id, TTL: n.ttl})
		}
	}
	return wills
}

// Stop takes the service down: all processes are suspended, and Open returns ErrUnavailable. No session
// times out in the service while it is down.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, c := range s.clients {
		for n := range c.open {
			n.suspend()
		}
	}
}

// Start brings the service back with all its entries and sessions. As in ZooKeeper, each session has its
// full timeout again from now on.
func (s *Service) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		return
	}
	s.stopped = false
	for _, c := range s.clients {
		c.resume()
	}
	for _, n := range s.sessions {
		if !n.inTouch() {
			n.expires = time.Now().Add(n.ttl)
			n.watchClock(time.Now())
		}
	}
}

// Lag makes sessions that are opened from now on begin at a server that is behind: they read the current
// state, and learn of no change, until catchUp is called, which may be called several times. A session's
// own writes, refused ones too, bring it up to date before that. Open sessions continue as they were, and
// so do those of an earlier Lag.
func (s *Service) Lag() (catchUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	past := s.clone()
	s.past = past
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.past == past {
			s.past = nil
		}
		for _, c := range s.clients {
			for n := range c.open {
				if n.past == past {
					n.catchUp()
				}
			}
		}
	}
}

// Delete removes the entry under key and all below it, of any owner, in one commit, as an operator does. A
// key with nothing under it is no error.
func (s *Service) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[key]; n != nil && n.entry.Exists() {
		s.rev++
		s.remove(n)
	}
}

// UseUp leaves the directory dir with numbers for left more entries: after that Enqueue returns ErrUsedUp,
// for as long as dir exists, as on ZooKeeper after some 2^31 entries.
func (s *Service) UseUp(dir string, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[dir]; n != nil && n.entry.Exists() {
		d := n.asDir()
		d.numbered, d.left = true, left
	}
}

var errPath = errors.New(`key must begin with "/", and have no empty segment`)

// Put writes value under key as a foreign writer does, over any entry there, and makes the missing
// ancestors as persistent entries. key needs to be a path, but need not pass CheckKey.
func (s *Service) Put(key string, value []byte) error {
	if !isPath(key) {
		return wrap("put", key, errPath)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lookup(key).Exists() {
		t := txn{svc: s}
		if err := t.put(key); err != nil {
			return wrap("put", key, err)
		}
	}
	s.rev++
	s.persist(key, value)
	return nil
}

func isPath(key string) bool {
	return len(key) > 1 && key[0] == '/' && !strings.HasSuffix(key, "/") && !strings.Contains(key, "//")
}
