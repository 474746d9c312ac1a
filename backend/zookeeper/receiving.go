package zookeeper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"
)

// Read hands on what the server sends, frame by frame, after a look at the head
// of each.
func (l *link) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if l.frameLeft == 0 && len(l.instead) == 0 {
		if err := l.nextFrame(); err != nil {
			return 0, err
		}
	}
	if len(l.instead) > 0 {
		n := copy(p, l.instead)
		l.instead = l.instead[n:]
		return n, nil
	}
	n, err := l.in.Read(p[:min(len(p), l.frameLeft)])
	l.frameLeft -= n
	return n, err
}

// nextFrame looks at the next frame without taking it. The client library would
// crash the process on a frame that is too short, and allocate whatever length
// the frame claims.
func (l *link) nextFrame() error {
	if l.greeted && !l.receiving {
		l.receiving = true
		l.pin.buffers.receiving()
	}
	skipped, err := l.in.Discard(l.skip)
	l.skip -= skipped
	if err != nil {
		return err
	}
	head, err := l.in.Peek(4)
	if err != nil {
		return err
	}
	length := int(int32(binary.BigEndian.Uint32(head)))
	if !l.greeted {
		if length < connectHead-12 || length > lookAhead-4 {
			return fmt.Errorf("%w: connect response of %d bytes", errProtocol, length)
		}
		frame, err := l.in.Peek(4 + length)
		if err != nil {
			return err
		}
		if err := l.connected(frame[4:]); err != nil {
			return err
		}
		l.greeted, l.frameLeft = true, 4+length
		return nil
	}
	if most := l.pin.buffers.maxAnswer; most > 0 && length > most {
		return l.tooLong(length)
	}
	if length < answerHead {
		return fmt.Errorf("%w: frame of %d bytes", errProtocol, length)
	}
	// An answer is looked at up to its first number, if it has one.
	frame, err := l.in.Peek(4 + min(length, answerHead+4))
	if err != nil {
		return err
	}
	request, err := l.answer(frame[4:], length)
	if err != nil {
		return err
	}
	if request.own != "" {
		return l.nearest(length, request.own)
	}
	if request.op == opMulti {
		return l.multi(length)
	}
	l.frameLeft = 4 + length
	return nil
}

// multi hands on the answer to a multi once it is whole.
func (l *link) multi(length int) error {
	if length > maxMulti {
		return fmt.Errorf("%w: answer of %d bytes to a multi", errProtocol, length)
	}
	frame := make([]byte, 4+length)
	if _, err := io.ReadFull(l.in, frame); err != nil {
		return err
	}
	if !wholeMulti(frame[4+answerHead:]) {
		return fmt.Errorf("%w: malformed answer to a multi", errProtocol)
	}
	l.instead = frame
	return nil
}

// tooLong hands on an error in the place of an answer that is longer than maxAnswer, so that
// whoever has asked is told. To break the link would fail all that is under way on it, and
// what is asked again would break the next one.
func (l *link) tooLong(length int) error {
	head, err := l.in.Peek(4 + answerHead)
	if err != nil {
		return err
	}
	if xid := int32(binary.BigEndian.Uint32(head[4:])); xid == xidEvent {
		return fmt.Errorf("%w: event of %d bytes", errProtocol, length)
	}
	if _, err := l.answer(head[4:], length); err != nil {
		return err
	}
	code := int32(codeTooLong)
	l.instead = binary.BigEndian.AppendUint32(nil, answerHead)
	l.instead = append(l.instead, head[4:answerHead]...)
	l.instead = binary.BigEndian.AppendUint32(l.instead, uint32(code))
	l.skip = 4 + length
	return nil
}

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
	password := passwordOf(frame)
	p.mu.Lock()
	if password != nil && !slices.ContainsFunc(password, func(b byte) bool { return b != 0 }) {
		had := p.session != 0
		p.mu.Unlock()
		if !had {
			p.foreign()
		} // else another server may have the session
		return errForeign
	}
	if p.session != 0 && p.session != id {
		p.mu.Unlock()
		p.expired()
		return errUnpinned
	}
	l.opened = p.session == 0
	p.session, p.link = id, l
	if p.password == nil {
		p.password = bytes.Clone(password)
	}
	p.mu.Unlock()
	if err := p.granted(id, time.Duration(timeout)*time.Millisecond, at); err != nil {
		return err
	}
	p.mu.Lock()
	l.leaving = p.leaving // after granted, which lets a link be that is for closing the session only
	p.mu.Unlock()
	l.mu.Lock()
	l.up = true
	l.mu.Unlock()
	return l.Conn.SetReadDeadline(time.Time{})
}

// passwordOf is the password in a connect response. A server of ZooKeeper's makes one for each session, of
// java.util.Random's numbers, which are never all 0.
func passwordOf(frame []byte) []byte {
	rest := frame[connectHead-12:]
	if len(rest) < 4+passwordLength || binary.BigEndian.Uint32(rest) != passwordLength {
		return nil
	}
	return rest[4:][:passwordLength]
}

// answer takes the head of a frame: xid, zxid, error, and what follows up to the
// first number. It returns the request that it answers, if what follows is to be looked at.
func (l *link) answer(head []byte, length int) (request sentFrame, err error) {
	xid := int32(binary.BigEndian.Uint32(head))
	code := int32(binary.BigEndian.Uint32(head[12:]))
	if xid == xidEvent {
		l.pin.show(int64(binary.BigEndian.Uint64(head[4:])))
		return sentFrame{}, nil
	}
	zxid := l.keepZxid(xid, head[4:12])
	request, ok := l.take(xid)
	if !ok {
		return sentFrame{}, fmt.Errorf("%w: answer to %d, which is not the oldest request", errProtocol, xid)
	}
	switch {
	case code == codeExpired:
		l.pin.expired()
		return sentFrame{}, nil
	case code == codeMoved, request.op == opAuth: // which the server answers without noting that the session lives
		return sentFrame{}, nil
	case request.op == opClose:
		if code != 0 {
			return sentFrame{}, nil // refused, such as by a server that throttles
		}
		l.pin.mu.Lock()
		defer l.pin.mu.Unlock()
		select {
		case <-l.pin.acked:
		default:
			close(l.pin.acked)
		}
		return sentFrame{}, nil
	}
	l.pin.answered(request.at)
	if code != 0 {
		return sentFrame{}, nil // no body, or one that isn't looked at
	}
	l.note(request, zxid)
	if !fits(request.op, head[answerHead:], length-answerHead) {
		return sentFrame{}, fmt.Errorf("%w: answer of %d bytes to a request with opcode %d", errProtocol, length, request.op)
	}
	return request, nil
}

// fits tells whether the body of an answer, of this size, can have what its beginning says that it has: the client
// library allocates as much first, and says of one that was cut off that its own buffer is too small.
func fits(op int32, beginning []byte, size int) bool {
	number := -1
	switch {
	case len(beginning) >= 4:
		number = int(int32(binary.BigEndian.Uint32(beginning)))
	case size >= 4: // it was not looked at, as it is not handed on: see tooLong
		return true
	}
	switch op {
	case opExists, opSetData:
		return size >= statLength
	case opCreate, opSync: // a path
		return 0 <= number && number <= size-4
	case opGetData: // a value, of which -1 is none
		return -1 <= number && max(number, 0) <= size-4-statLength
	case opChildren: // so many names
		return 0 <= number && number <= (size-4-statLength)/4
	}
	return true
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

// note takes what an answer without an error tells of the leader: its epoch, which is
// the upper half of a zxid, or 0 where that has none, and, if the request was a write, that a quorum has followed
// it since the request was sent. A multi of which a part was refused is a write, too: it
// is proposed as a whole.
func (l *link) note(request sentFrame, zxid int64) {
	if zxid == 0 {
		return
	}
	epoch, vote := uint64(zxid)>>32, isWrite(request.op)
	l.mu.Lock()
	l.epoch = epoch
	if vote && request.at.After(l.voted) {
		l.voted = request.at
	}
	l.mu.Unlock()
	if vote {
		l.pin.voted(request.at, epoch)
	}
}

// newest returns when the newest vote on the link was sent, and the epoch of what was
// answered last, or 0.
func (l *link) newest() (voted time.Time, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.voted, l.epoch
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
