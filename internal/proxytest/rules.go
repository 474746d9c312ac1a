package proxytest

import (
	"slices"
	"sync"
)

// Request is one request that a ZooKeeper client sent through a Proxy. The first message of a connection,
// the ConnectRequest, is a request with OpConnect.
type Request struct {
	Opcode  int32
	Payload []byte // the bytes after xid and opcode; must not be changed

	// Zxid and Err are from the server's reply, if there was one. Err is zero if the request succeeded.
	Zxid int64
	Err  int32

	xid int32 // the client's number, 0 for OpConnect
}

// Match reports whether a rule applies to a request.
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

// rule says what to do with the requests that match.
type rule struct {
	kind    ruleKind
	match   Match
	most    int           // maximum number of requests, 0 for no limit
	code    int32         // of a refusal
	reports chan Request  // requests that do not fit are not reported
	hold    chan struct{} // closed when the rule ends
	of      *Rules

	// Guarded by Rules.mu.
	used int // requests so far
	over bool
}

// Rules act on the requests that go through a proxy, and through others that share them. The zero Rules are
// empty.
type Rules struct {
	mu    sync.Mutex
	rules []*rule
}

// OnRequest calls seen for every request that any client sends from now on, including pings and OpConnect,
// before it is passed on. Calls for one link are sequential, and the link waits for them; calls for
// different links are concurrent. stop ends the calls; one may still be running when it returns.
func (s *Rules) OnRequest(seen func(opcode int32, payload []byte)) (stop func()) {
	r := s.add(&rule{kind: observe, match: func(opcode int32, payload []byte) bool {
		seen(opcode, payload)
		return false
	}})
	return func() { r.end() }
}

// DropReply loses the replies to the next n requests that match. It passes the request on, waits for the
// server's reply, so that the server has certainly acted, and then closes the link instead of delivering
// the reply. Earlier replies on the link are delivered.
//
// Each request is reported on the channel, with the zxid and error from the reply, unless its link ends
// before the reply comes. At most 64 unread reports are kept and later ones dropped; the channel is never
// closed. match is called like OnRequest's function.
func (s *Rules) DropReply(match Match, n int) <-chan Request {
	return s.add(&rule{kind: dropReply, match: match, most: n}).reports
}

// DropRequest loses the next n requests that match: it does not pass the request on, so the server never
// acts on it, and closes the link. Earlier requests on the link have been passed on by then. Reports and
// match are as for DropReply.
func (s *Rules) DropRequest(match Match, n int) <-chan Request {
	return s.add(&rule{kind: dropRequest, match: match, most: n}).reports
}

// RefuseReply replaces the replies to the next n requests that match with an error of the given code of
// ZooKeeper's protocol. The server has acted on the requests. Reports and match are as for DropReply, and
// the link stays open.
func (s *Rules) RefuseReply(match Match, code int32, n int) <-chan Request {
	return s.add(&rule{kind: refuseReply, match: match, most: n, code: code}).reports
}

// TurnAway answers all requests that match with an error code from now on, and keeps them from the server,
// as a server does that throttles its clients. release ends that and returns the number of these requests.
// match is as for DropReply.
func (s *Rules) TurnAway(match Match, code int32) (release func() int) {
	r := s.add(&rule{kind: turnAway, match: match, code: code})
	return r.end
}

// HoldReply holds back the replies to all requests that match, and everything that the server sends to the
// same client after them, including watch events, until release. When a request is reported on held, as by
// DropReply, the server has acted on it.
//
// release delivers in order what was held, and ends the rule. It may be called more than once.
func (s *Rules) HoldReply(match Match) (held <-chan Request, release func()) {
	r := s.add(&rule{kind: holdReply, match: match})
	return r.reports, func() { r.end() }
}

// ClearRules ends all OnRequest, Drop and Hold rules. It releases what is held; drops that have begun still
// end their links.
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

// take calls all observers and returns the first rule that acts on the request, or nil.
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

// end ends the rule, if it has not ended, and returns the number of requests that used it.
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

// dropLocked removes the rule from the list. The caller holds the mutex.
func (r *rule) dropLocked() {
	r.of.rules = slices.DeleteFunc(r.of.rules, func(other *rule) bool { return other == r })
}

// report reports one request to the test, unless the rule has ended.
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
