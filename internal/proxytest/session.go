package proxytest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
)

// session follows the ZooKeeper traffic on one link and applies the proxy's rules to it. Every frame is a
// 4-byte length and that many bytes. The first frame in each direction is the ConnectRequest and its
// response; later frames of the client begin with xid and opcode, those of the server with xid, zxid and
// error.
type session struct {
	rules []*Rules

	// Each field is used by the goroutine of one direction only.
	clientBuf, serverBuf   []byte // of an incomplete frame
	clientSeen, serverSeen bool   // whether the connect frame has passed

	mu      sync.Mutex
	pending []exchange // requests with a rule that will act on their replies
}

// exchange is a request that a rule has claimed.
type exchange struct {
	rule *rule
	req  Request
}

// fromClient turns a chunk from the client into items for the server.
func (s *session) fromClient(chunk []byte) []item { return cutFrames(&s.clientBuf, chunk, s.request) }

// fromServer turns a chunk from the server into items for the client.
func (s *session) fromServer(chunk []byte) []item { return cutFrames(&s.serverBuf, chunk, s.reply) }

// cutFrames takes all complete frames out of buf and the chunk after it. handle returns what to do with a
// frame instead of passing it on, or nil.
func cutFrames(buf *[]byte, chunk []byte, handle func(frame []byte) *item) (items []item) {
	rest := append(*buf, chunk...)
	for len(rest) >= 4 {
		length := 4 + int64(binary.BigEndian.Uint32(rest))
		if int64(len(rest)) < length {
			break
		}
		frame := rest[:length:length]
		rest = rest[length:]
		special := handle(frame)
		if special == nil {
			special = &item{data: frame}
		}
		items = append(items, *special)
		if special.end != goOn {
			rest = nil // nothing passes after the end of the link
		}
	}
	*buf = slices.Clone(rest) // cloned, as the frames keep the array before it
	return items
}

// request applies the rules to one client frame.
func (s *session) request(frame []byte) *item {
	req := Request{Opcode: OpConnect, Payload: frame[4:]}
	switch {
	case !s.clientSeen:
		s.clientSeen = true
	case len(frame) < 12:
		return nil
	default:
		req.xid = int32(binary.BigEndian.Uint32(frame[4:]))
		req.Opcode = int32(binary.BigEndian.Uint32(frame[8:]))
		req.Payload = frame[12:]
	}
	r := take(s.rules, req)
	switch {
	case r == nil:
		return nil
	case r.kind == dropRequest:
		r.report(req)
		return &item{end: ended}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, exchange{r, req})
	if r.kind == turnAway {
		return &item{data: inPlaceOf(frame)}
	}
	return nil
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
	// Replies come in the order of their requests, so the first match is right, even if several have the
	// same xid (pings).
	i := slices.IndexFunc(s.pending, func(e exchange) bool {
		return (e.req.Opcode == OpConnect) == connect && e.req.xid == xid
	})
	if i < 0 {
		return nil
	}
	e := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	e.req.Zxid, e.req.Err = zxid, errCode
	e.rule.report(e.req)
	switch e.rule.kind {
	case holdReply:
		return &item{data: frame, hold: e.rule.hold}
	case refuseReply, turnAway:
		return &item{data: refusal(frame, e.rule.code)}
	}
	return &item{end: ended}
}

// inPlaceOf returns a request without effect, whose reply comes when the reply to the other one would.
func inPlaceOf(request []byte) []byte {
	const path, noWatch = "/", 0
	frame := binary.BigEndian.AppendUint32(nil, 4+4+4+1+1)
	frame = append(frame, request[4:8]...) // xid
	frame = binary.BigEndian.AppendUint32(frame, uint32(OpExists))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(path)))
	return append(append(frame, path...), noWatch)
}

// refusal returns a reply without a body that refuses the request.
func refusal(reply []byte, code int32) []byte {
	const head = 4 + 8 + 4 // xid, zxid, error
	frame := bytes.Clone(reply[:4+head])
	binary.BigEndian.PutUint32(frame, head)
	binary.BigEndian.PutUint32(frame[4+12:], uint32(code))
	return frame
}
