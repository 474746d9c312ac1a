package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Opcodes and error codes that the wire looks at.
const (
	opClose      = -11
	opCreate     = 1
	opDelete     = 2
	opExists     = 3
	opGetData    = 4
	opSetData    = 5
	opSetACL     = 7
	opChildren   = 12 // getChildren2
	opMulti      = 14
	opPing       = 11
	opAuth       = 100
	opSetWatches = 101
	xidEvent     = -1
	xidPing      = -2
	codeExpired  = -112
	codeMoved    = -118
	codeTooLong  = -2000 // no server's: see tooLong

	connectHead = 4 + 4 + 8 + 4 + 8 // length, version, zxid, timeout, session
	requestHead = 4 + 4 + 4         // length, xid, opcode
	answerHead  = 4 + 8 + 4         // xid, zxid, error
)

// How much of a frame can be looked at: the heads of all, the connect response, of which
// servers make 45 bytes, and what most commits are answered with; the rest of those only
// once there is one, since each session has a buffer of this size.
const (
	lookAhead = 512
	maxMulti  = 4 << 10
)

var (
	errUnpinned = errors.New("refused: the client would go on in another session")
	errProtocol = errors.New("protocol violation")
)

// A pin sees every frame of one client connection, over all its links (TCP
// connections), and holds it to one session.
//
// After an expiry the client library silently asks for a new session on the same
// zk.Conn, and sends in it whatever is still queued. The pin refuses to let that
// connect request out, so nothing queued can ever run in another session.
type pin struct {
	// All are called without pin.mu held, on the client library's goroutines; they
	// must not block.
	granted  func(id int64, timeout time.Duration, sent time.Time) error
	answered func(sent time.Time)
	voted    func(sent time.Time, epoch uint64) // a write was answered
	expired  func()

	buffers buffers
	watched watched

	mu      sync.Mutex
	session int64 // 0 until the first is granted
	zxid    int64 // the newest that was answered
	shown   int64 // the newest of an event
	refuse  error // set once no link may be made any more
	leaving bool  // new links are only for closing the session
	links   map[*link]struct{}
	link    *link         // the last one that was greeted
	acked   chan struct{} // closed when the server has answered a close request
}

// stop refuses new links.
func (p *pin) stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse == nil {
		p.refuse = err
	}
}

// leave has all links that are greeted from now on be for closing the session only.
func (p *pin) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
}

// all are the links that there are.
func (p *pin) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.links))
}

// kill closes all links, and refuses new ones.
func (p *pin) kill(err error) {
	p.stop(err)
	p.mu.Lock()
	links := p.links
	p.links = nil
	p.mu.Unlock()
	for l := range links {
		_ = l.Conn.Close() // nothing is left to do with it
	}
}

// cut closes all links; new ones may be made.
func (p *pin) cut() {
	for _, l := range p.all() {
		_ = l.Conn.Close() // the client library finds out
	}
}

// current is the last link that was greeted.
func (p *pin) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// attach wraps a new TCP connection.
func (p *pin) attach(conn net.Conn, handshake time.Duration) (*link, error) {
	l := &link{Conn: conn, pin: p, in: bufio.NewReaderSize(conn, lookAhead), greetBy: time.Now().Add(handshake)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		_ = conn.Close() // nothing was said on it
		return nil, p.refuse
	}
	if p.links == nil {
		p.links = make(map[*link]struct{})
	}
	p.links[l] = struct{}{}
	return l, nil
}

// A link is one TCP (or TLS) connection of a pin. The client library writes from
// one goroutine at a time and reads from one.
type link struct {
	net.Conn
	pin *pin

	// The writer's.
	asked    bool              // the connect request has passed
	head     [connectHead]byte // the beginning of the frame being written
	headLen  int
	bodyLeft int   // bytes of it that are still to come
	began    int64 // pin.zxid at the connect request

	// The reader's.
	in        *bufio.Reader
	greeted   bool
	receiving bool   // frames after the connect response are being read
	frameLeft int    // bytes of the current frame not yet handed on
	instead   []byte // what is handed on in the place of an answer
	skip      int    // bytes of that answer, which nobody gets

	// Set before the link is greeted.
	opened  bool // the session was made on it
	leaving bool // nothing passes but what it takes to close the session

	mu          sync.Mutex // guards the rest
	askedAt     time.Time  // set before the link is greeted
	greetBy     time.Time  // until then the session has to be granted
	up          bool
	voted       time.Time // when the newest write that was answered was sent
	epoch       uint64    // of the newest answer, if known
	known       bool
	outstanding []sentFrame // a queue: answers come in order
	first       int
}

// sentFrame is a request that has not been answered.
type sentFrame struct {
	xid, op int32
	at      time.Time
}

func (l *link) Close() error {
	l.pin.mu.Lock()
	delete(l.pin.links, l)
	l.pin.mu.Unlock()
	return l.Conn.Close()
}

// SetReadDeadline keeps a server that accepts connections and says nothing from
// holding up the search for another one: the client library waits for the
// connect response for 6.7 session timeouts, and takes the limit off between
// its two reads.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && (t.IsZero() || t.After(l.greetBy)) {
		t = l.greetBy
	}
	return l.Conn.SetReadDeadline(t)
}

// hurry has a link that is being made come about earlier, or not at all.
func (l *link) hurry(by time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && by.Before(l.greetBy) {
		l.greetBy = by
		_ = l.Conn.SetReadDeadline(by) // what is wrong with the connection, its reader finds
	}
}

// Write passes on what the client sends and notes when. The instant is taken, and
// the frame noted, before a byte leaves: the answer may be here before Write
// returns, and the trust window counts from the sending.
func (l *link) Write(p []byte) (int, error) {
	now := time.Now()
	if !l.asked {
		return l.writeConnect(p, now)
	}
	if l.leaving && l.late(p) {
		return len(p), nil // and the client library answers it when it ends
	}
	if err := l.track(p, now); err != nil {
		return 0, err
	}
	l.pin.buffers.grow()
	if _, err := l.Conn.Write(l.amended(p)); err != nil {
		// Told of it, the client library would answer the request now, and again when it
		// clears away what is outstanding. With the answer as the session closes that is
		// one too many: its loop would block for ever. It finds out by reading.
		_ = l.Conn.Close()
	}
	return len(p), nil
}

// late tells whether p is a request that was still queued when the session was closed. The client
// library writes each at once.
func (l *link) late(p []byte) bool {
	if l.headLen > 0 || l.bodyLeft > 0 || len(p) < requestHead || int(binary.BigEndian.Uint32(p)) != len(p)-4 {
		return false
	}
	switch int32(binary.BigEndian.Uint32(p[8:])) {
	case opClose, opAuth, opPing, opSetWatches:
		return false
	}
	return true
}

// track notes the requests that begin in a part of the stream.
func (l *link) track(rest []byte, now time.Time) error {
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
			return fmt.Errorf("%w: request of %d bytes", errProtocol, length)
		}
		l.bodyLeft = int(length) - (requestHead - 4)
		l.sent(int32(binary.BigEndian.Uint32(l.head[4:])), int32(binary.BigEndian.Uint32(l.head[8:])), now)
	}
	return nil
}

// writeConnect holds the connect request back until it is seen which session it
// asks for.
func (l *link) writeConnect(p []byte, now time.Time) (int, error) {
	n := copy(l.head[l.headLen:], p)
	l.headLen += n
	if l.headLen < connectHead {
		return len(p), nil
	}
	id := int64(binary.BigEndian.Uint64(l.head[connectHead-8:]))
	l.pin.mu.Lock()
	refuse := l.pin.refuse
	if refuse == nil && l.pin.session != 0 && id != l.pin.session {
		refuse = errUnpinned
	}
	l.began = l.pin.zxid
	seen := max(l.pin.zxid, l.pin.shown)
	l.pin.mu.Unlock()
	if refuse != nil {
		if refuse == errUnpinned {
			l.pin.expired()
		}
		return 0, refuse
	}
	l.asked, l.headLen = true, 0
	// The password follows.
	length := int32(binary.BigEndian.Uint32(l.head[:]))
	if length < connectHead-4 {
		return 0, fmt.Errorf("%w: connect request of %d bytes", errProtocol, length)
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
	if _, err := l.Conn.Write(greeting[:]); err != nil {
		return 0, err
	}
	if _, err := l.Conn.Write(p[n:]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (l *link) sent(xid, op int32, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first > 0 && len(l.outstanding) == cap(l.outstanding) {
		n := copy(l.outstanding, l.outstanding[l.first:])
		l.outstanding, l.first = l.outstanding[:n], 0
	}
	l.outstanding = append(l.outstanding, sentFrame{xid, op, at})
}

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
	op, err := l.answer(frame[4:], length)
	if err != nil {
		return err
	}
	if op == opMulti && 4+length <= maxMulti {
		if 4+length > l.in.Size() {
			l.in = bufio.NewReaderSize(l.in, maxMulti)
		}
		frame, err := l.in.Peek(4 + length)
		if err != nil {
			return err
		}
		if !wholeMulti(frame[4+answerHead:]) {
			return fmt.Errorf("%w: malformed answer to a multi", errProtocol)
		}
	}
	l.frameLeft = 4 + length
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
