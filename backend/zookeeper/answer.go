package zookeeper

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// connected takes the connect response: version, timeout, session, password.
func (l *link) connected(frame []byte) error {
	timeout := int32(binary.BigEndian.Uint32(frame[4:]))
	id := int64(binary.BigEndian.Uint64(frame[8:]))
	l.mu.Lock()
	at := l.askedAt
	l.mu.Unlock()
	if at.IsZero() {
		return fmt.Errorf("%w: connect response without a request", errProtocol)
	}
	p := l.pin
	if id == 0 {
		// The session that was asked for has expired. Told from here, the loss
		// is known before the client library begins to make a new session.
		p.mu.Lock()
		had := p.session != 0
		p.mu.Unlock()
		if had {
			p.expired()
		}
		return nil
	}
	if timeout <= 0 {
		return fmt.Errorf("%w: granted a timeout of %d ms", errProtocol, timeout)
	}
	p.mu.Lock()
	if p.session != 0 && p.session != id {
		p.mu.Unlock()
		p.expired()
		return errUnpinned
	}
	l.opened, l.leaving = p.session == 0, p.leaving
	p.session, p.link = id, l
	p.mu.Unlock()
	if err := p.granted(id, time.Duration(timeout)*time.Millisecond, at); err != nil {
		return err
	}
	l.mu.Lock()
	l.up = true
	l.mu.Unlock()
	return l.Conn.SetReadDeadline(time.Time{})
}

// answer takes the head of a frame: xid, zxid, error, and what follows up to the
// first number. It returns the opcode of the request that it answers.
func (l *link) answer(head []byte, length int) (op int32, err error) {
	xid := int32(binary.BigEndian.Uint32(head))
	code := int32(binary.BigEndian.Uint32(head[12:]))
	if xid == xidEvent {
		l.pin.show(int64(binary.BigEndian.Uint64(head[4:])))
		return 0, nil
	}
	zxid := l.keepZxid(xid, head[4:12])
	request, ok := l.take(xid)
	if !ok {
		return 0, fmt.Errorf("%w: answer to %d, which is not the oldest request", errProtocol, xid)
	}
	switch {
	case code == codeExpired:
		l.pin.expired()
		return 0, nil
	case code == codeMoved:
		return 0, nil
	case request.op == opAuth:
		// The server answers it without noting that the session lives.
		return opAuth, nil
	case request.op == opClose:
		if code != 0 {
			return opClose, nil // refused, such as by a server that throttles
		}
		l.pin.mu.Lock()
		defer l.pin.mu.Unlock()
		select {
		case <-l.pin.acked:
		default:
			close(l.pin.acked)
		}
		return opClose, nil
	}
	l.pin.answered(request.at)
	if code != 0 {
		return 0, nil // no body, or one that isn't looked at
	}
	l.note(request, zxid)
	if request.op == opChildren && len(head) >= answerHead+4 {
		// The client library makes a slice of this many strings first.
		if n := binary.BigEndian.Uint32(head[answerHead:]); int64(n)*4 > int64(length) {
			return 0, fmt.Errorf("%w: %d children in %d bytes", errProtocol, n, length)
		}
	}
	return request.op, nil
}

// take removes the request that an answer is for. The server answers a session's
// requests in their order. Only those for authentication it answers at once, so
// that they overtake others; and several pings look the same, of which the oldest
// is meant, or an older one than meant: then the window is shorter, never longer.
//
// A missing answer, that is one to a later request, breaks the link, as in the
// Java client: the request would otherwise wait for ever, since the client
// library has no time limit for a single one.
func (l *link) take(xid int32) (sentFrame, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.first; i < len(l.outstanding); i++ {
		f := l.outstanding[i]
		if f.xid != xid {
			if f.op == opAuth || f.xid == xidPing || xid == xidPing {
				continue
			}
			if !l.isAuth(i, xid) {
				return sentFrame{}, false
			}
			continue
		}
		if i == l.first {
			l.first++
			if l.first == len(l.outstanding) {
				l.outstanding, l.first = l.outstanding[:0], 0
			}
		} else {
			l.outstanding = append(l.outstanding[:i], l.outstanding[i+1:]...)
		}
		return f, true
	}
	return sentFrame{}, false
}

// isAuth tells whether xid is an outstanding authentication after i.
func (l *link) isAuth(i int, xid int32) bool {
	for _, f := range l.outstanding[i:] {
		if f.xid == xid {
			return f.op == opAuth
		}
	}
	return false
}

// wholeMulti tells whether the body of an answer to a multi has the parts that it
// says it has: the client library reads beyond its end otherwise, and crashes.
func wholeMulti(body []byte) bool {
	const head = 4 + 1 + 4
	for {
		if len(body) < head {
			return false
		}
		kind, done := int32(binary.BigEndian.Uint32(body)), body[4] != 0
		body = body[head:]
		if done {
			return true
		}
		size := 0
		switch kind {
		case -1: // an error code
			size = 4
		case 1: // create: a path
			if len(body) < 4 {
				return false
			}
			n := int32(binary.BigEndian.Uint32(body))
			if n < 0 {
				return false
			}
			size = 4 + int(n)
		case 5: // setData: a Stat
			size = 68
		}
		if size > len(body) {
			return false
		}
		body = body[size:]
	}
}

// keepZxid takes the zxid out of the head of an answer and keeps it for the next
// link.
//
// The client library would keep it itself, and tell the server at the next link what
// it has seen: in the connect request, so that a server that lags behind is not
// taken, and in the setting of watches, so that events are sent of what came after.
// But v1.0.4 reads the one while it already writes the other: a data race, and if
// an answer on the new link comes first, events are lost. Here the zxid is the one that
// the link began with, whatever has been answered on it since.
//
// It returns the zxid, or 0 where the answer bears none.
func (l *link) keepZxid(xid int32, field []byte) int64 {
	zxid := int64(binary.BigEndian.Uint64(field))
	if xid < 0 || zxid <= 0 {
		return 0
	}
	clear(field)
	l.pin.mu.Lock()
	l.pin.zxid = max(l.pin.zxid, zxid)
	l.pin.mu.Unlock()
	return zxid
}

// show takes the zxid of an event, which servers tell from 3.9 on: what has been shown the server
// of the next link has to have. Watches are set as of the last answer all the same, as there may
// be more events of that zxid.
func (p *pin) show(zxid int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = max(p.shown, zxid)
}

// note takes what an answer without an error tells of the leader: its epoch, which is
// the upper half of a zxid, and, if the request was a write, that a quorum has followed
// it since the request was sent. A multi of which a part was refused is a write, too: it
// is proposed as a whole.
func (l *link) note(request sentFrame, zxid int64) {
	if zxid == 0 {
		return
	}
	epoch, vote := uint64(zxid)>>32, isWrite(request.op)
	l.mu.Lock()
	l.epoch, l.known = epoch, true
	if vote && request.at.After(l.voted) {
		l.voted = request.at
	}
	l.mu.Unlock()
	if vote {
		l.pin.voted(request.at, epoch)
	}
}

// newest returns when the newest vote on the link was sent, and the epoch of what was
// answered last, if anything was.
func (l *link) newest() (voted time.Time, epoch uint64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.voted, l.epoch, l.known
}

// isWrite tells of an opcode that the client library sends whether it is only answered
// when a quorum has agreed.
func isWrite(op int32) bool {
	switch op {
	case opCreate, opDelete, opSetData, opSetACL, opMulti:
		return true
	}
	return false
}

// newest is the newest zxid that has been seen: whatever is sent from now on, if it
// writes, gets a higher one.
func (p *pin) newest() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.zxid)
}

// amended returns a request as it goes out: one that sets watches again, which are some of
// the user's own, with the zxid that the link began with; a read whose path is watched with
// a watch. The library writes each request whole.
func (l *link) amended(p []byte) []byte {
	if len(p) < requestHead {
		return p
	}
	switch op, body := int32(binary.BigEndian.Uint32(p[8:])), p[requestHead:]; op {
	case opSetWatches:
		if len(body) >= 8 {
			p = slices.Clone(p)
			binary.BigEndian.PutUint64(p[requestHead:], uint64(l.began))
		}
	case opExists, opGetData, opChildren:
		// The path's length, the path, and whether a watch is to be set.
		const length, mark = 4, 1
		if len(body) >= length+mark && l.pin.watched.has(watchedPath{op, string(body[length : len(body)-mark])}) {
			p = slices.Clone(p)
			p[len(p)-mark] = 1
		}
	}
	return p
}
