package proxytest

import (
	"math"
	"sync"
)

// Request is one request that a ZooKeeper client sent through a Proxy. A
// connection's first message, the ConnectRequest, is one with OpConnect.
type Request struct {
	Client  string // the client's address, see Link.Client
	Xid     int32  // as the client numbered it, 0 for OpConnect
	Opcode  int32
	Payload []byte // what follows xid and opcode; must not be changed

	// Zxid and Err are from the server's reply, if there was one. Err is zero
	// if the server did what was asked.
	Zxid int64
	Err  int32
}

// maxDrops bounds one rule's count, since its reports are buffered.
const maxDrops = 1 << 12

type ruleKind int

const (
	observe ruleKind = iota
	dropReply
	dropRequest
	refuseReply
	turnAway
	holdReply
)

// rule says what to do with requests that match.
type rule struct {
	kind    ruleKind
	match   func(opcode int32, payload []byte) bool
	reports chan Request
	hold    chan struct{} // closed on release
	code    int32         // of a refusal

	// Guarded by the set's mutex.
	left     int // drops that are still to begin
	due      int // drops that are still to be reported
	released bool
}

// ruleSet holds a proxy's rules.
type ruleSet struct {
	mu    sync.Mutex
	rules []*rule
}

// OnRequest has seen called for every request that any client sends from now
// on, pings and OpConnect included, before it is passed on. Calls for one link
// are made one after another, and the link waits for them; different links
// call at the same time. stop ends it; a call may still be going on then.
func (p *Proxy) OnRequest(seen func(opcode int32, payload []byte)) (stop func()) {
	r := &rule{kind: observe, match: func(opcode int32, payload []byte) bool {
		seen(opcode, payload)
		return false
	}}
	p.rules.add(r)
	return func() { p.rules.remove(r) }
}

// DropReply loses the replies to the next n requests that match: the request
// is passed on, the server's reply is awaited, so that the server has certainly
// acted, and then the link is closed instead of the reply being delivered.
// Earlier replies on the link are delivered.
//
// Each request is reported on the channel, with the zxid and error from the
// reply, once its link is over; the channel is closed after the n-th. A request
// whose link ends before the reply comes does not count. n is at least 1 and at
// most 4096. A nil match stands for every request but OpPing and OpConnect;
// match is called like OnRequest's function.
func (p *Proxy) DropReply(match func(opcode int32, payload []byte) bool, n int) <-chan Request {
	return p.drop(dropReply, match, n)
}

// DropRequest loses the next n requests that match: the request is not passed
// on, so that the server never acts on it, and its link is closed. Earlier
// requests on the link have been passed on by then. Reports, n and match are as for
// DropReply.
func (p *Proxy) DropRequest(match func(opcode int32, payload []byte) bool, n int) <-chan Request {
	return p.drop(dropRequest, match, n)
}

func (p *Proxy) drop(kind ruleKind, match func(int32, []byte) bool, n int) <-chan Request {
	n = min(max(n, 1), maxDrops)
	r := &rule{kind: kind, match: matchOrAny(match), reports: make(chan Request, n), left: n, due: n}
	p.rules.add(r)
	return r.reports
}

// RefuseReply replaces the replies to the next n requests that match by an error with the
// given code of ZooKeeper's protocol, as a server gives that throttles its clients. The
// server has acted on them, so it is for requests without an effect, such as OpSync.
// Reports, n and match are as for DropReply, and the link goes on.
func (p *Proxy) RefuseReply(match func(opcode int32, payload []byte) bool, code int32, n int) <-chan Request {
	n = min(max(n, 1), maxDrops)
	r := &rule{kind: refuseReply, match: matchOrAny(match), reports: make(chan Request, n), left: n, due: n, code: code}
	p.rules.add(r)
	return r.reports
}

// TurnAway has all requests that match answered with an error code, from now on, and keeps them
// from the server, as a server does that throttles its clients. release ends it, and returns how
// many there were. match is as for DropReply.
func (p *Proxy) TurnAway(match func(opcode int32, payload []byte) bool, code int32) (release func() int) {
	r := &rule{kind: turnAway, match: matchOrAny(match), code: code, left: math.MaxInt, due: math.MaxInt}
	p.rules.add(r)
	return func() int {
		p.rules.remove(r)
		p.rules.mu.Lock()
		defer p.rules.mu.Unlock()
		return math.MaxInt - r.left
	}
}

// HoldReply holds back the replies to all requests that match, with everything
// that the server sends to the same client after them, watch events included,
// until release. The server has acted on a request when it is reported on held.
// Reports beyond 64 unread ones are dropped; the channel is never closed.
//
// release delivers what was held, in order, and ends the rule. It may be called
// more than once.
func (p *Proxy) HoldReply(match func(opcode int32, payload []byte) bool) (held <-chan Request, release func()) {
	r := &rule{kind: holdReply, match: matchOrAny(match), reports: make(chan Request, 64), hold: make(chan struct{})}
	p.rules.add(r)
	return r.reports, func() { p.rules.remove(r) }
}

// ClearRules ends all OnRequest, Drop and Hold rules. What is held is released;
// drops that have begun still end their links, without a report.
func (p *Proxy) ClearRules() {
	for _, r := range p.rules.snapshot() {
		p.rules.remove(r)
	}
}

func (s *ruleSet) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
}

func (s *ruleSet) remove(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(r)
}

// removeLocked ends a rule, once. Caller holds mu.
func (s *ruleSet) removeLocked(r *rule) {
	if r.released {
		return
	}
	r.released = true
	if r.hold != nil {
		close(r.hold)
	}
	// A new slice, since snapshots share the old one.
	kept := make([]*rule, 0, len(s.rules))
	for _, other := range s.rules {
		if other != r {
			kept = append(kept, other)
		}
	}
	s.rules = kept
}

// snapshot returns the present rules; the slice must not be changed.
func (s *ruleSet) snapshot() []*rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules[:len(s.rules):len(s.rules)]
}

// take calls all observers and returns the first rule that acts on the
// request, or nil.
func (s *ruleSet) take(rules []*rule, req Request) *rule {
	var taken *rule
	for _, r := range rules {
		if taken != nil && r.kind != observe {
			continue
		}
		// Not under the lock: match belongs to the test and may call the proxy.
		if r.match(req.Opcode, req.Payload) && s.begin(r) {
			taken = r
		}
	}
	return taken
}

// begin claims one use of the rule. It returns false if none is left.
func (s *ruleSet) begin(r *rule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.released {
		return false
	}
	if r.hold != nil {
		return true
	}
	if r.left == 0 {
		return false
	}
	r.left--
	return true
}

// giveBack undoes begin for a drop that did not come about.
func (s *ruleSet) giveBack(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.hold == nil {
		r.left++
	}
}

// report tells the test of one request that was dropped or held.
func (s *ruleSet) report(r *rule, req Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.released {
		return
	}
	select {
	case r.reports <- req:
	default: // only a hold can have this many
	}
	if r.hold != nil {
		return
	}
	if r.due--; r.due == 0 {
		s.removeLocked(r)
		close(r.reports)
	}
}
