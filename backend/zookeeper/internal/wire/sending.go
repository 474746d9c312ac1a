package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Write sends a request on and notes when. It takes the time, and notes the request, before a byte
// leaves: the reply may come before Write returns, and the trust window counts from the sending. The
// client library writes each request whole.
func (l *Link) Write(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	now, least := time.Now(), requestHead
	if !l.asked {
		least = connectHead
	}
	if len(p) < least || int(binary.BigEndian.Uint32(p)) != len(p)-4 {
		return 0, fmt.Errorf("%w: %d bytes that are no request", ErrProtocol, len(p))
	}
	if !l.asked {
		return l.writeConnect(p, now)
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	switch op {
	case OpPing:
		if l.pin.beats && now.Sub(l.sent) < l.timeout/4 {
			l.pin.buffers.grow() // or shrink: the library may send nothing else for days
			return len(p), nil   // it waits for no reply
		}
	case OpClose, OpAuth, OpSetWatches:
	default:
		if l.leaving { // it was still queued when the session was closed
			return len(p), nil // the client library fails it when it ends
		}
	}
	l.sent = now
	l.mu.Lock()
	l.outstanding = append(l.outstanding, sentFrame{xid: xid, op: op, at: now})
	l.mu.Unlock()
	l.pin.buffers.grow()
	if _, err := l.Conn.Write(l.amended(op, p)); err != nil {
		// If it got the error, the client library would answer the request now, and again when it
		// clears the outstanding ones. Together with the reply when the session closes that is one too
		// many: its loop would block for ever. It finds the error by reading.
		_ = l.Conn.Close()
	}
	return len(p), nil
}

// writeConnect sends a connect request on if it asks for the right session.
func (l *Link) writeConnect(p []byte, now time.Time) (int, error) {
	id := int64(binary.BigEndian.Uint64(p[connectHead-8:]))
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
	l.asked = true
	l.mu.Lock()
	l.askedAt = now
	l.mu.Unlock()
	p = slices.Clone(p)
	binary.BigEndian.PutUint64(p[8:], uint64(seen))
	return l.Conn.Write(p)
}

// amended returns a request as it is sent. A request that sets watches again (these are the user's own)
// gets the zxid that the link began with. A read whose path is watched gets a watch. A create may ask for
// the new node's Stat, too: see Pin.Telling.
func (l *Link) amended(op int32, p []byte) []byte {
	switch body := p[requestHead:]; op {
	case OpSetWatches:
		if len(body) >= 8 {
			p = slices.Clone(p)
			binary.BigEndian.PutUint64(p[requestHead:], uint64(l.began))
		}
	case OpCreate:
		if len(body) < 4 {
			break
		}
		if length := int(binary.BigEndian.Uint32(body)); length <= len(body)-4 {
			return l.telling(p, string(body[4:4+length]), body[4+length:])
		}
	case OpSync:
		if len(body) >= 4 && l.pin.watched.has(OpUnwatch, string(body[4:])) {
			return l.unwatch(p, string(body[4:]))
		}
	case OpExists, OpGetData, OpChildren:
		// The path's length, the path, and whether to set a watch.
		const length, mark = 4, 1
		if len(body) < length+mark {
			break
		}
		path := string(body[length : len(body)-mark])
		if op == OpChildren && l.pin.watched.has(opNearest, path) {
			return l.forDirectory(p, path)
		}
		if body[len(body)-mark] != 0 {
			l.usersRead(p, op, path)
		}
		if l.pin.watched.has(op, path) {
			p = slices.Clone(p)
			p[len(p)-mark] = 1
		}
	}
	return p
}

// other returns a request with another opcode that is sent in place of one, and notes it for its reply. rest is what
// follows the path.
func (l *Link) other(p []byte, op int32, path string, rest ...byte) []byte {
	l.noted(p, func(f *sentFrame) { f.op = op })
	request := binary.BigEndian.AppendUint32(slices.Clone(p[4:8]), uint32(op))
	return appendBytes(nil, append(appendBytes(request, []byte(path)), rest...))
}
