package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"
)

// A session sends heartbeats for as long as it lives. By way of the client library each request takes three goroutines.
// So the link sends these itself, on the caller's.

// xidAsk is above the numbers of these requests. No two are the same: a follower knows a session's requests by them.
// The library's own are positive, and numbers between have a meaning.
const xidAsk = -16

// syncOfRoot is the body of a request that the leader answers. Any path will do; it need not exist.
var syncOfRoot = []byte{0, 0, 0, 1, '/'}

// Ask sends a request that the leader answers: a sync, or a vote, which a quorum must acknowledge (see checkOfRoot). It
// blocks until that is answered, or the link is over: then the error is net.ErrClosed. A vote that is refused because
// "/" is missing or may not be read is one all the same.
//
// If second is set, it is called when the request has been answered, and not refused, and says whether a second one is
// a vote. That is sent at once, and Ask returns when it is answered: nobody need wake in between. second must not block.
//
// Only one Ask is pending at a time.
func (l *Link) Ask(vote bool, second func() (vote bool)) error {
	if !l.ask(vote, second) {
		return net.ErrClosed
	}
	code, ok := <-l.answers
	switch {
	case !ok:
		return net.ErrClosed
	case code == 0:
		return nil
	}
	return fmt.Errorf("unknown error: %d", code) // in the client library's words
}

// ask sends a request, and reports whether the link is not over.
func (l *Link) ask(vote bool, second func() bool) bool {
	op, body := int32(OpSync), syncOfRoot
	if vote {
		op, body = OpMulti, checkOfRoot
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	now := time.Now()
	l.mu.Lock()
	ok := l.up && !l.leaving && !l.over
	xid := xidAsk - l.pin.asks.Add(1)
	if ok {
		l.outstanding = append(l.outstanding, sentFrame{xid: xid, op: op, at: now})
		l.second = second
	}
	l.mu.Unlock()
	if !ok {
		return false
	}
	l.sent = now
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(xid)), uint32(op))
	if _, err := l.Conn.Write(appendBytes(nil, append(request, body...))); err != nil {
		_ = l.Conn.Close() // the client library notices
	}
	return true
}

// passAnswer passes the reply to Ask on to its caller, and not to the library. Its head has been looked at.
func (l *Link) passAnswer(request sentFrame, code int32, length int) error {
	frame, err := l.whole(length)
	if err != nil {
		return err
	}
	if body := frame[4+answerHead:]; code == 0 && request.op == OpMulti {
		if !wholeMulti(body) || body[4] != 0 { // the one part is not the end
			return fmt.Errorf("%w: malformed answer to a multi", ErrProtocol)
		}
		const head, refused = 4 + 1 + 4, -1
		if int32(binary.BigEndian.Uint32(body)) == refused {
			code = int32(binary.BigEndian.Uint32(body[head:]))
		}
		if slices.Contains([]int32{codeNoNode, codeNoAuth}, code) {
			code = 0
		}
	}
	l.mu.Lock()
	second := l.second
	l.mu.Unlock()
	if code == 0 && second != nil {
		l.ask(second(), nil) // if the link is over, so is Ask
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.answers <- code // nobody has sent another: see take
	}
	return nil
}
