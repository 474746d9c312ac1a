package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"
)

// Read passes on what the server sends, frame by frame, after a look at the head of each.
func (l *Link) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for l.frameLeft == 0 && len(l.instead) == 0 {
		if err := l.nextFrame(); err != nil {
			return 0, err
		}
	}
	if len(l.instead) > 0 {
		n := copy(p, l.instead)
		if l.instead = l.instead[n:]; len(l.instead) == 0 {
			l.instead = nil // a link may be idle for days
		}
		return n, nil
	}
	n, err := l.in.Read(p[:min(len(p), l.frameLeft)])
	l.frameLeft -= n
	return n, err
}

// nextFrame looks at the next frame without consuming it. The client library would crash the process on
// a frame that is too short, and allocate any length that the frame claims.
func (l *Link) nextFrame() error {
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
		if !l.greeted && l.unanswered != nil {
			l.unanswered(err)
		}
		return err
	}
	length := int(int32(binary.BigEndian.Uint32(head)))
	if !l.greeted {
		if length < connectHead-12 || length > lookAhead-4 {
			return fmt.Errorf("%w: connect response of %d bytes", ErrProtocol, length)
		}
		frame, err := l.in.Peek(4 + length)
		if err != nil {
			return err
		}
		l.instead = bytes.Clone(frame)
		if _, err := l.in.Discard(len(frame)); err != nil {
			return err
		}
		if err := l.connected(l.instead[4:]); err != nil {
			l.instead = nil
			return err
		}
		l.greeted = true
		return nil
	}
	if most := l.pin.buffers.maxAnswer; most > 0 && length > most {
		return l.tooLong(length)
	}
	if length < answerHead {
		return fmt.Errorf("%w: frame of %d bytes", ErrProtocol, length)
	}
	// A reply is looked at up to its first number, if it has one.
	frame, err := l.in.Peek(4 + min(length, answerHead+4))
	if err != nil {
		return err
	}
	request, err := l.answer(frame[4:], length)
	if err != nil {
		return err
	}
	if xid := int32(binary.BigEndian.Uint32(frame[4:])); xid < xidAsk {
		return l.passAnswer(request, int32(binary.BigEndian.Uint32(frame[4+12:])), length)
	}
	if request.own != "" {
		return l.passNearest(length, request.own)
	}
	switch request.op {
	case opCreate2:
		return l.created(length)
	case OpMulti:
		return l.multi(length)
	case OpUnwatch: // the library waits for a sync's reply, with a path
		l.instead = appendBytes(nil, append(slices.Clone(frame[4:4+answerHead]), 0, 0, 0, 0))
		l.skip = 4 + length
		return nil
	}
	l.frameLeft = 4 + length
	return nil
}

// multi passes on the reply to a multi once it is whole.
func (l *Link) multi(length int) error {
	frame, err := l.whole(length)
	if err != nil {
		return err
	}
	if !wholeMulti(frame[4+answerHead:]) {
		return fmt.Errorf("%w: malformed answer to a multi", ErrProtocol)
	}
	l.instead = frame
	return nil
}

// whole reads a frame of which only the head has been looked at.
func (l *Link) whole(length int) ([]byte, error) {
	if length > maxWhole {
		return nil, fmt.Errorf("%w: answer of %d bytes to a write", ErrProtocol, length)
	}
	frame := make([]byte, 4+length)
	_, err := io.ReadFull(l.in, frame)
	return frame, err
}

// tooLong passes on an error in place of a reply that is longer than maxAnswer.
func (l *Link) tooLong(length int) error {
	head, err := l.in.Peek(4 + answerHead)
	if err != nil {
		return err
	}
	if xid := int32(binary.BigEndian.Uint32(head[4:])); xid == xidEvent {
		return fmt.Errorf("%w: event of %d bytes", ErrProtocol, length)
	}
	if _, err := l.answer(head[4:], length); err != nil {
		return err
	}
	code := int32(CodeTooLong)
	l.instead = appendBytes(nil, binary.BigEndian.AppendUint32(slices.Clone(head[4:answerHead]), uint32(code)))
	l.skip = 4 + length
	return nil
}

// connected handles the connect response: version, timeout, session, password.
func (l *Link) connected(frame []byte) error {
	timeout := int32(binary.BigEndian.Uint32(frame[4:]))
	id := int64(binary.BigEndian.Uint64(frame[8:]))
	at := l.AskedAt()
	if at.IsZero() {
		return fmt.Errorf("%w: connect response without a request", ErrProtocol)
	}
	p := l.pin
	if id == 0 {
		// The requested session has expired. Reported from here, the loss is known before the client
		// library begins to make a new session.
		p.mu.Lock()
		had := p.session != 0
		p.mu.Unlock()
		if had {
			p.events.Expired()
		}
		return nil
	}
	if timeout <= 0 {
		return fmt.Errorf("%w: granted a timeout of %d ms", ErrProtocol, timeout)
	}
	password := passwordOf(frame)
	p.mu.Lock()
	if password != nil && !slices.ContainsFunc(password, func(b byte) bool { return b != 0 }) {
		had := p.session != 0
		p.mu.Unlock()
		if !had {
			p.events.Foreign()
		} // else another server may have the session
		return ErrForeign
	}
	if p.session != 0 && p.session != id {
		p.mu.Unlock()
		p.events.Expired()
		return ErrUnpinned
	}
	p.mu.Unlock()
	// A session that is not known yet is not pinned if this fails: the client library, which has not heard
	// of it, asks the next server for another one.
	if err := l.authenticate(); err != nil {
		return err
	}
	p.mu.Lock()
	l.opened, l.timeout = p.session == 0, time.Duration(timeout)*time.Millisecond
	p.session, p.link = id, l
	if p.password == nil {
		p.password = bytes.Clone(password)
	}
	p.mu.Unlock()
	if err := p.events.Granted(id, l.timeout, at); err != nil {
		return err
	}
	p.mu.Lock()
	l.leaving = p.leaving // after granted, which allows a link that is only for closing the session
	p.mu.Unlock()
	l.mu.Lock()
	l.up = true
	l.mu.Unlock()
	return l.Conn.SetReadDeadline(time.Time{})
}

// passwordOf returns the password in a connect response. A ZooKeeper server makes one for each session,
// from java.util.Random's numbers, which are never all 0.
func passwordOf(frame []byte) []byte {
	rest := frame[connectHead-12:]
	if len(rest) < 4+PasswordLength || binary.BigEndian.Uint32(rest) != PasswordLength {
		return nil
	}
	return rest[4:][:PasswordLength]
}

// answer handles the head of a frame: xid, zxid, error, and what follows up to the first number. It
// returns the request of this reply, if the rest needs a look.
func (l *Link) answer(head []byte, length int) (request sentFrame, err error) {
	xid := int32(binary.BigEndian.Uint32(head))
	code := int32(binary.BigEndian.Uint32(head[12:]))
	if xid == xidEvent {
		// Servers send the zxid from 3.9 on. The server of the next link must not be older than this.
		// Watches are still set as of the last reply, as more events of that zxid may follow.
		l.pin.mu.Lock()
		l.pin.shown = max(l.pin.shown, int64(binary.BigEndian.Uint64(head[4:])))
		l.pin.mu.Unlock()
		return sentFrame{}, nil
	}
	zxid := l.keepZxid(xid, head[4:12])
	request, ok := l.take(xid, code)
	if !ok {
		return sentFrame{}, fmt.Errorf("%w: answer to %d, which is not the oldest request", ErrProtocol, xid)
	}
	switch {
	case code == codeExpired:
		l.pin.events.Expired()
		return sentFrame{}, nil
	case code == codeMoved, request.op == OpAuth: // to these the server replies without noting that the session lives
		return sentFrame{}, nil
	case request.op == OpClose:
		if code == 0 { // else it was refused, such as by a server that throttles
			l.pin.ack.Do(func() { close(l.pin.acked) })
		}
		return sentFrame{}, nil
	}
	l.pin.events.Answered(request.at)
	if code != 0 {
		return sentFrame{}, nil // no body, or one that is not looked at
	}
	l.note(request, zxid)
	if !fits(request.op, head[answerHead:], length-answerHead) {
		return sentFrame{}, fmt.Errorf("%w: answer of %d bytes to a request with opcode %d", ErrProtocol, length, request.op)
	}
	return request, nil
}

// fits reports whether the body of a reply of this size can hold what its beginning claims. The client
// library allocates that much first, and reports a truncated reply as its own buffer being too small.
func fits(op int32, beginning []byte, size int) bool {
	number := -1
	switch {
	case len(beginning) >= 4:
		number = int(int32(binary.BigEndian.Uint32(beginning)))
	case size >= 4: // not looked at, as it is not passed on: see tooLong
		return true
	}
	switch op {
	case OpExists, OpSetData:
		return size >= statLength
	case opCreate2: // a path and a Stat
		return 0 <= number && number <= size-4-statLength
	case OpCreate, OpSync: // a path
		return 0 <= number && number <= size-4
	case OpGetData: // a value; -1 means none
		return -1 <= number && max(number, 0) <= size-4-statLength
	case OpChildren: // that many names
		return 0 <= number && number <= (size-4-statLength)/4
	}
	return true
}

// take removes the request of a reply. The server replies to a session's requests in order, except that
// it replies to authentication at once, ahead of others. Several pings look the same: the reply is
// matched with the oldest one, which is the right one or older: then the window is shorter, never
// longer.
//
// A missing reply, which shows as a reply to a later request, breaks the link, as in the Java client:
// the request would otherwise wait for ever, since the client library has no time limit for a single
// one.
func (l *Link) take(xid, code int32) (sentFrame, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.outstanding {
		switch {
		case f.xid == xid:
			if f.user != "" && (code == 0 || code == codeNoNode && f.op == OpExists) {
				l.pin.watched.noteUser(f.user) // with mu held: byUser finds it here or there
			}
			switch {
			case i > 0:
				l.outstanding = slices.Delete(l.outstanding, i, i+1)
			case len(l.outstanding) == 1:
				l.outstanding = l.outstanding[:0]
			default: // without moving the others, of which there may be thousands
				l.outstanding[0] = sentFrame{}
				l.outstanding = l.outstanding[1:]
			}
			return f, true
		case f.op == OpAuth, f.xid == xidPing, xid == xidPing:
		case !slices.ContainsFunc(l.outstanding[i:], func(f sentFrame) bool { return f.xid == xid && f.op == OpAuth }):
			return sentFrame{}, false
		}
	}
	return sentFrame{}, false
}

// wholeMulti reports whether the body of a reply to a multi has the parts that it claims: otherwise the
// client library reads beyond its end, and crashes.
func wholeMulti(body []byte) bool {
	const head = 4 + 1 + 4
	for len(body) >= head {
		op, done := int32(binary.BigEndian.Uint32(body)), body[4] != 0
		body = body[head:]
		if done {
			return true
		}
		size := int64(0)
		switch op {
		case -1: // an error code
			size = 4
		case OpCreate: // a path
			if len(body) < 4 {
				return false
			}
			size = 4 + int64(binary.BigEndian.Uint32(body)) // over 2 GB if negative
		case OpSetData:
			size = statLength
		}
		if size > int64(len(body)) {
			return false
		}
		body = body[size:]
	}
	return false
}

// keepZxid takes the zxid out of the head of a reply, keeps it for the next link, and returns it, or 0
// if the reply has none.
//
// The client library would keep it itself, and send it to the server at the next link: in the connect
// request, so that a server that lags behind is not accepted, and when it sets watches, so that events
// are sent for later changes. But v1.0.4 reads the one while it already writes the other: a data race,
// and if a reply on the new link comes first, events are lost. Here the zxid is the one that the link
// began with, no matter which replies have come on it since.
func (l *Link) keepZxid(xid int32, field []byte) int64 {
	zxid := int64(binary.BigEndian.Uint64(field))
	if xid < 0 && xid >= xidAsk || zxid <= 0 {
		return 0
	}
	clear(field)
	l.pin.mu.Lock()
	l.pin.zxid = max(l.pin.zxid, zxid)
	l.pin.mu.Unlock()
	return zxid
}

// note records what a reply without an error says about the leader: its epoch, which is the upper half
// of a zxid, or 0 if that has none, and, if the request was a write, that a quorum has followed the
// leader since the request was sent. A multi with a refused part is a write, too: it is proposed as a
// whole.
func (l *Link) note(request sentFrame, zxid int64) {
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
		l.pin.events.Voted(request.at, epoch)
	}
}

// isWrite reports whether a request with this opcode, of those that a link sends, is only answered after a
// quorum has agreed.
func isWrite(op int32) bool {
	switch op {
	case OpCreate, opCreate2, OpDelete, OpSetData, OpSetACL, OpMulti:
		return true
	}
	return false
}
