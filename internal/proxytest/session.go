package proxytest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
)

// wire is what a link knows about the protocol spoken on it.
type wire int

const (
	unknown wire = iota
	frames       // ZooKeeper's
	raw          // anything else, four-letter words too
)

const (
	minConnect = 28       // bytes in the smallest ConnectRequest
	maxConnect = 64 << 10 // generous; far below what text protocols begin with
	maxFrame   = 64 << 20 // beyond this, the stream is not what it seemed
)

// session follows the ZooKeeper traffic on one link and applies the proxy's
// rules to it. Every frame is a 4-byte length and that many bytes. The first
// frame in each direction is the ConnectRequest and its response; after that
// client frames begin with xid and opcode, server frames with xid, zxid and
// error.
type session struct {
	rules  *ruleSet
	client string

	// Each is used by one direction's goroutine only.
	clientBuf, serverBuf   []byte
	clientSeen, serverSeen bool // the connect frame has passed

	mu      sync.Mutex
	wire    wire
	pending []exchange // requests on whose replies a rule will act
	lost    []exchange // drops to report when the link is over
	over    bool
}

// exchange is a request that a rule has claimed.
type exchange struct {
	rule *rule
	req  Request
}

// fromClient turns a chunk that the client sent into items for the server.
func (s *session) fromClient(chunk []byte, eof bool) []item {
	s.clientBuf = append(s.clientBuf, chunk...)
	kind := s.recognise(s.clientBuf)
	if kind == unknown && !eof {
		return nil
	}
	if kind == frames {
		return s.cutFrames(&s.clientBuf, eof, s.request)
	}
	return flush(&s.clientBuf, nil)
}

// fromServer turns a chunk that the server sent into items for the client.
func (s *session) fromServer(chunk []byte, eof bool) []item {
	s.serverBuf = append(s.serverBuf, chunk...)
	s.mu.Lock()
	if s.wire == unknown && len(chunk) > 0 {
		s.wire = raw // ZooKeeper's servers do not speak first
	}
	kind := s.wire
	s.mu.Unlock()
	if kind == frames {
		return s.cutFrames(&s.serverBuf, eof, s.reply)
	}
	return flush(&s.serverBuf, nil)
}

// recognise decides by the client's first bytes what is spoken. ZooKeeper's
// ConnectRequest has a small length followed by protocol version 0.
func (s *session) recognise(start []byte) wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != unknown || len(start) == 0 {
		return s.wire
	}
	switch {
	case start[0] != 0:
		s.wire = raw
	case len(start) < 8:
		// Too early to tell.
	default:
		length, version := binary.BigEndian.Uint32(start), binary.BigEndian.Uint32(start[4:])
		if length >= minConnect && length <= maxConnect && version == 0 {
			s.wire = frames
		} else {
			s.wire = raw
		}
	}
	return s.wire
}

// cutFrames takes all whole frames out of buf. handle returns what to do with a
// frame instead of passing it on, or nil.
func (s *session) cutFrames(buf *[]byte, eof bool, handle func(frame []byte) *item) []item {
	var items []item
	var plain []byte // frames to pass on together
	rest := *buf
	for len(rest) >= 4 {
		length := int64(binary.BigEndian.Uint32(rest))
		if length > maxFrame {
			s.mu.Lock()
			s.wire = raw
			s.mu.Unlock()
			plain, rest = append(plain, rest...), nil
			break
		}
		if int64(len(rest)) < 4+length {
			break
		}
		frame := rest[:4+length]
		rest = rest[4+length:]
		special := handle(frame)
		if special == nil {
			plain = append(plain, frame...)
			continue
		}
		items = append(flush(&plain, items), *special)
		if special.end != goOn {
			*buf = nil // nothing passes after the link's end
			return items
		}
	}
	if eof {
		plain, rest = append(plain, rest...), nil
	}
	*buf = append((*buf)[:0], rest...)
	return flush(&plain, items)
}

// flush appends what is in buf, if anything, as an item of its own.
func flush(buf *[]byte, items []item) []item {
	if len(*buf) == 0 {
		return items
	}
	items = append(items, item{data: *buf})
	*buf = nil
	return items
}

// request applies the rules to one client frame.
func (s *session) request(frame []byte) *item {
	connect := !s.clientSeen
	s.clientSeen = true
	rules := s.rules.snapshot()
	if len(rules) == 0 {
		return nil
	}
	req := Request{Client: s.client, Opcode: OpConnect, Payload: frame[4:]}
	if !connect {
		if len(frame) < 12 {
			return nil
		}
		req.Xid = int32(binary.BigEndian.Uint32(frame[4:]))
		req.Opcode = int32(binary.BigEndian.Uint32(frame[8:]))
		req.Payload = frame[12:]
	}
	req.Payload = bytes.Clone(req.Payload) // the test may keep it
	r := s.rules.take(rules, req)
	if r == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.rules.giveBack(r)
		return nil
	}
	switch r.kind {
	case dropRequest:
		s.lost = append(s.lost, exchange{r, req})
		return &item{end: ended}
	case turnAway:
		s.pending = append(s.pending, exchange{r, req})
		return &item{data: inPlaceOf(frame)}
	default:
		s.pending = append(s.pending, exchange{r, req})
		return nil
	}
}

// reply applies the rules to one server frame.
func (s *session) reply(frame []byte) *item {
	connect := !s.serverSeen
	s.serverSeen = true
	var xid, errCode int32
	var zxid int64
	if !connect {
		if len(frame) < 20 {
			return nil
		}
		xid = int32(binary.BigEndian.Uint32(frame[4:]))
		zxid = int64(binary.BigEndian.Uint64(frame[8:]))
		errCode = int32(binary.BigEndian.Uint32(frame[16:]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Replies come in the order of their requests, so the first is the one,
	// even where all have the same xid (pings).
	i := slices.IndexFunc(s.pending, func(e exchange) bool {
		return (e.req.Opcode == OpConnect) == connect && e.req.Xid == xid
	})
	if i < 0 {
		return nil
	}
	e := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	e.req.Zxid, e.req.Err = zxid, errCode
	switch e.rule.kind {
	case holdReply:
		s.rules.report(e.rule, e.req)
		return &item{data: bytes.Clone(frame), hold: e.rule.hold}
	case refuseReply, turnAway:
		s.rules.report(e.rule, e.req)
		return &item{data: refusal(frame, e.rule.code)}
	}
	s.lost = append(s.lost, e)
	return &item{end: ended}
}

// abandon settles accounts when the link is over.
func (s *session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, e := range s.lost {
		s.rules.report(e.rule, e.req)
	}
	for _, e := range s.pending {
		s.rules.giveBack(e.rule)
	}
	s.lost, s.pending = nil, nil
}

// inPlaceOf is a request without an effect, whose reply comes when that of the other would.
func inPlaceOf(request []byte) []byte {
	const path, noWatch = "/", 0
	frame := binary.BigEndian.AppendUint32(nil, 4+4+4+1+1)
	frame = append(frame, request[4:8]...) // xid
	frame = binary.BigEndian.AppendUint32(frame, uint32(OpExists))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(path)))
	return append(append(frame, path...), noWatch)
}

// refusal is a reply without a body that says that the request was refused.
func refusal(reply []byte, code int32) []byte {
	const head = 4 + 8 + 4 // xid, zxid, error
	frame := bytes.Clone(reply[:4+head])
	binary.BigEndian.PutUint32(frame, head)
	binary.BigEndian.PutUint32(frame[4+12:], uint32(code))
	return frame
}
