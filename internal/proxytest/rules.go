package proxytest

import (
	"slices"
	"sync"
)

// Request is one request that a ZooKeeper client sent through a Proxy. A
// connection's first message, the ConnectRequest, is one with OpConnect.
type Request struct {
	Opcode  int32
	Payload []byte // what follows xid and opcode; must not be changed

	// Zxid and Err are from the server's reply, if there was one. Err is zero
	// if the server did what was asked.
	Zxid int64
	Err  int32

	xid int32 // as the client numbered it, 0 for OpConnect
}

// Match tells whether a request is meant.
type Match = func(opcode int32, payload []byte) bool

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
	match   Match
	most    int           // requests, 0: any number
	code    int32         // of a refusal
	reports chan Request  // what is unread beyond its room is not reported
	hold    chan struct{} // closed in the end
	of      *Rules

	// Guarded by the mutex of all.
	used int // requests so far
	over bool
}

// Rules say what becomes of the requests that go through a proxy, and through others that share
// them. The zero Rules are empty.
type Rules struct {
	mu    sync.Mutex
	rules []*rule
}

// OnRequest has seen called for every request that any client sends from now
// on, pings and OpConnect included, before it is passed on. Calls for one link
// are made one after another, and the link waits for them; different links
// call at the same time. stop ends it; a call may still be going on then.
func (s *Rules) OnRequest(seen func(opcode int32, payload []byte)) (stop func()) {
	r := s.add(&rule{kind: observe, match: func(opcode int32, payload []byte) bool {
		seen(opcode, payload)
		return false
	}})
	return func() { r.end() }
}

// DropReply loses the replies to the next n requests that match: the request
// is passed on, the server's reply is awaited, so that the server has certainly
// acted, and then the link is closed instead of the reply being delivered.
// Earlier replies on the link are delivered.
//
// Each request is reported on the channel, with the zxid and error from the reply, unless its
// link ends before that comes. Reports beyond 64 unread ones are dropped; the channel is never
// closed. match is called like OnRequest's function.
func (s *Rules) DropReply(match Match, n int) <-chan Request {
	return s.add(&rule{kind: dropReply, match: match, most: n}).reports
}

// DropRequest loses the next n requests that match: the request is not passed
// on, so that the server never acts on it, and its link is closed. Earlier
// requests on the link have been passed on by then. Reports and match are as for
// DropReply.
func (s *Rules) DropRequest(match Match, n int) <-chan Request {
	return s.add(&rule{kind: dropRequest, match: match, most: n}).reports
}

// RefuseReply replaces the replies to the next n requests that match by an error with the
// given code of ZooKeeper's protocol. The server has acted on them. Reports and match are as for
// DropReply, and the link goes on.
func (s *Rules) RefuseReply(match Match, code int32, n int) <-chan Request {
	return s.add(&rule{kind: refuseReply, match: match, most: n, code: code}).reports
}

// TurnAway has all requests that match answered with an error code, from now on, and keeps them
// from the server, as a server does that throttles its clients. release ends it, and returns how
// many there were. match is as for DropReply.
func (s *Rules) TurnAway(match Match, code int32) (release func() int) {
	r := s.add(&rule{kind: turnAway, match: match, code: code})
	return r.end
}

// HoldReply holds back the replies to all requests that match, with everything
// that the server sends to the same client after them, watch events included,
// until release. The server has acted on a request when it is reported on held, as by
// DropReply.
//
// release delivers what was held, in order, and ends the rule. It may be called
// more than once.
func (s *Rules) HoldReply(match Match) (held <-chan Request, release func()) {
	r := s.add(&rule{kind: holdReply, match: match})
	return r.reports, func() { r.end() }
}

// ClearRules ends all OnRequest, Drop and Hold rules. What is held is released;
// drops that have begun still end their links.
func (s *Rules) ClearRules() {
	for _, r := range s.present() {
		r.end()
	}
}

func (s *Rules) add(r *rule) *rule {
	r.reports, r.hold, r.of = make(chan Request, 64), make(chan struct{}), s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
	return r
}

func (s *Rules) present() []*rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rules)
}

// take calls all observers and returns the first rule that acts on the
// request, or nil.
func take(all []*Rules, req Request) (taken *rule) {
	for _, rules := range all {
		for _, r := range rules.present() {
			if taken != nil && r.kind != observe {
				continue
			}
			// Not under the lock: match belongs to the test and may call the proxy.
			if r.match(req.Opcode, req.Payload) && r.use() {
				taken = r
			}
		}
	}
	return taken
}

// use claims one use of the rule. It returns false if none is left.
func (r *rule) use() bool {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.over || r.most > 0 && r.used == r.most { // since take has looked
		return false
	}
	if r.used++; r.used == r.most {
		r.dropLocked()
	}
	return true
}

// end ends the rule, once, and returns how many requests it was used for.
func (r *rule) end() (used int) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.hold)
		r.dropLocked()
	}
	return r.used
}

// dropLocked takes the rule out of the list. Caller holds the mutex.
func (r *rule) dropLocked() {
	r.of.rules = slices.DeleteFunc(r.of.rules, func(other *rule) bool { return other == r })
}

// report tells the test of one request, unless the rule has ended.
func (r *rule) report(req Request) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.over {
		return
	}
	select {
	case r.reports <- req:
	default:
	}
}
