package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Write sends the client's bytes on and notes when. It takes the time, and notes the frame, before a
// byte leaves: the reply may come before Write returns, and the trust window counts from the sending.
func (l *Link) Write(p []byte) (int, error) {
	now := time.Now()
	if !l.asked {
		return l.writeConnect(p, now)
	}
	if l.leaving && l.late(p) {
		return len(p), nil // the client library fails the request when it ends
	}
	if err := l.track(p, now); err != nil {
		return 0, err
	}
	l.pin.buffers.grow()
	if _, err := l.Conn.Write(l.amended(p)); err != nil {
		// If it got the error, the client library would answer the request now, and again when it
		// clears the outstanding ones. Together with the reply when the session closes that is one too
		// many: its loop would block for ever. It finds the error by reading.
		_ = l.Conn.Close()
	}
	return len(p), nil
}

// late reports whether p is a request that was still queued when the session was closed. The client
// library writes each at once.
func (l *Link) late(p []byte) bool {
	if l.headLen > 0 || l.bodyLeft > 0 || len(p) < requestHead || int(binary.BigEndian.Uint32(p)) != len(p)-4 {
		return false
	}
	switch int32(binary.BigEndian.Uint32(p[8:])) {
	case OpClose, OpAuth, OpPing, OpSetWatches:
		return false
	}
	return true
}

// track notes the requests that begin in a part of the stream.
func (l *Link) track(rest []byte, now time.Time) error {
	for len(rest) > 0 {
		if l.bodyLeft > 0 {
			n := min(l.bodyLeft, len(rest))
			l.bodyLeft -= n
			rest = rest[n:]
			continue
		}
		n := copy(l.head[l.headLen:requestHead], rest)
		l.headLen += n
		rest = rest[n:]
		if l.headLen < requestHead {
			break
		}
		l.headLen = 0
		length := int32(binary.BigEndian.Uint32(l.head[:]))
		if length < requestHead-4 {
			return fmt.Errorf("%w: request of %d bytes", ErrProtocol, length)
		}
		l.bodyLeft = int(length) - (requestHead - 4)
		l.sent(int32(binary.BigEndian.Uint32(l.head[4:])), int32(binary.BigEndian.Uint32(l.head[8:])), now)
	}
	return nil
}

// writeConnect holds back the connect request until it has seen which session it asks for.
func (l *Link) writeConnect(p []byte, now time.Time) (int, error) {
	n := copy(l.head[l.headLen:], p)
	l.headLen += n
	if l.headLen < connectHead {
		return len(p), nil
	}
	id := int64(binary.BigEndian.Uint64(l.head[connectHead-8:]))
	l.pin.mu.Lock()
	refuse := l.pin.refuse
	if refuse == nil && l.pin.session != 0 && id != l.pin.session {
		refuse = ErrUnpinned
	}
	l.began = l.pin.zxid
	seen := max(l.pin.zxid, l.pin.shown)
	l.pin.mu.Unlock()
	if refuse != nil {
		if refuse == ErrUnpinned {
			l.pin.events.Expired()
		}
		return 0, refuse
	}
	l.asked, l.headLen = true, 0
	// The password follows.
	length := int32(binary.BigEndian.Uint32(l.head[:]))
	if length < connectHead-4 {
		return 0, fmt.Errorf("%w: connect request of %d bytes", ErrProtocol, length)
	}
	l.bodyLeft = int(length) + 4 - connectHead
	greeting := l.head // track uses l.head for the next frame
	binary.BigEndian.PutUint64(greeting[8:], uint64(seen))
	l.mu.Lock()
	l.askedAt = now
	l.mu.Unlock()
	if err := l.track(p[n:], now); err != nil {
		return 0, err
	}
	if _, err := l.Conn.Write(append(greeting[:], p[n:]...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (l *Link) sent(xid, op int32, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outstanding = append(l.outstanding, sentFrame{xid: xid, op: op, at: at})
}

// amended returns a request as it is sent. A request that sets watches again (these are the user's own)
// gets the zxid that the link began with. A read whose path is watched gets a watch. The library writes
// each request whole.
func (l *Link) amended(p []byte) []byte {
	if len(p) < requestHead {
		return p
	}
	switch op, body := int32(binary.BigEndian.Uint32(p[8:])), p[requestHead:]; op {
	case OpSetWatches:
		if len(body) >= 8 {
			p = slices.Clone(p)
			binary.BigEndian.PutUint64(p[requestHead:], uint64(l.began))
		}
	case OpExists, OpGetData, OpChildren:
		// The path's length, the path, and whether to set a watch.
		const length, mark = 4, 1
		if len(body) < length+mark {
			break
		}
		path := string(body[length : len(body)-mark])
		if op == OpChildren && l.pin.has(opNearest, path) {
			return l.forDirectory(p, path)
		}
		if l.pin.has(op, path) {
			p = slices.Clone(p)
			p[len(p)-mark] = 1
		}
	}
	return p
}
