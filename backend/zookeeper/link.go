package zookeeper

import (
	"bufio"
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
	opSync       = 9
	opChildren   = 12 // getChildren2
	opPing       = 11
	opCheck      = 13
	opMulti      = 14
	opAuth       = 100
	opSetWatches = 101
	xidEvent     = -1
	xidPing      = -2
	xidAuth      = -4
	codeExpired  = -112
	codeMoved    = -118
	codeTooLong  = -2000 // not a server's code: see tooLong

	connectHead = 4 + 4 + 8 + 4 + 8 // length, version, zxid, timeout, session
	requestHead = 4 + 4 + 4         // length, xid, opcode
	answerHead  = 4 + 8 + 4         // xid, zxid, error
)

const (
	// lookAhead is how much of a frame can be looked at in place: the heads of all, and the connect
	// response, for which servers send 45 bytes. Each session has a buffer of this size.
	lookAhead = 512
	// maxMulti is the largest accepted reply to a multi. Servers accept requests of 1 MB by default.
	maxMulti = 16 << 20
)

var (
	errUnpinned = errors.New("refused: the client would go on in another session")
	errProtocol = errors.New("protocol violation")
	errForeign  = fmt.Errorf("%w: the server is not Apache ZooKeeper: it grants sessions without a password, as ClickHouse Keeper and RaftKeeper do; "+
		"nothing proves there until when a session lives, and on ClickHouse Keeper it ends with its connection", errors.ErrUnsupported)
)

// A pin sees every frame of one client connection, over all its links (TCP connections), and restricts
// it to one session.
//
// After an expiry the client library silently asks for a new session on the same zk.Conn, and sends all
// queued requests in it. The pin does not let that connect request out, so no queued request can ever
// run in another session.
type pin struct {
	buffers
	watched
	events events
	queue  queue

	mu       sync.Mutex
	session  int64  // 0 until the first is granted
	password []byte // of the session, to resume it on another link
	zxid     int64  // the newest zxid of a reply
	shown    int64  // the newest zxid of an event
	refuse   error  // set once no more links may be made
	leaving  bool   // new links are only for closing the session
	links    map[*link]struct{}
	link     *link         // the last one that was greeted
	acked    chan struct{} // closed when the server has replied to a close request
}

// events are what a session learns from its frames. All are called on the client library's goroutines;
// they must not block.
type events struct {
	granted  func(id int64, timeout time.Duration, sent time.Time) error // an error ends the link
	answered func(sent time.Time)                                        // a reply shows that the session lives
	voted    func(sent time.Time, epoch uint64)                          // a write was answered
	expired  func()                                                      // or replaced by another session
	foreign  func()                                                      // the first server is not Apache ZooKeeper's
}

// newPin returns a pin without links. maxAnswer is the longest reply that is accepted, in bytes; 0 means
// no limit.
func newPin(e events, q queue, maxAnswer int) *pin {
	return &pin{events: e, queue: q, buffers: buffers{maxAnswer: maxAnswer}, acked: make(chan struct{})}
}

// stop refuses new links.
func (p *pin) stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse == nil {
		p.refuse = err
	}
}

// leave restricts all links that are greeted from now on to closing the session.
func (p *pin) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
}

// all returns all links.
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
		_ = l.Conn.Close() // the client library notices
	}
}

// current returns the last link that was greeted.
func (p *pin) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// closeAcked is closed once the server has replied to a close request.
func (p *pin) closeAcked() <-chan struct{} { return p.acked }

// secret returns the session's password, or nil before a server has granted the session.
func (p *pin) secret() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.password
}

// dial prepares the client library for another link. It returns an error if no more may be made.
func (p *pin) dial() error {
	p.buffers.dialing()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

// attach wraps a new TCP connection.
func (p *pin) attach(conn net.Conn, handshake time.Duration) (*link, error) {
	l := &link{Conn: conn, pin: p, in: bufio.NewReaderSize(conn, lookAhead), greetBy: time.Now().Add(handshake)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, p.refuse
	}
	if p.links == nil {
		p.links = make(map[*link]struct{})
	}
	p.links[l] = struct{}{}
	return l, nil
}

// show notes the zxid of an event, which servers send from 3.9 on: the server of the next link must not
// be older than what has been shown. Watches are still set as of the last reply, as more events of that
// zxid may follow.
func (p *pin) show(zxid int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = max(p.shown, zxid)
}

// newest returns the newest zxid that has been seen: any write sent from now on gets a higher one.
func (p *pin) newest() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.zxid)
}

// A link is one TCP (or TLS) connection of a pin. The client library writes from one goroutine at a
// time and reads from one.
type link struct {
	net.Conn
	pin *pin

	// The writer's.
	asked    bool              // the connect request has been sent
	head     [connectHead]byte // the beginning of the frame being written
	headLen  int
	bodyLeft int   // bytes of the frame that are still to come
	began    int64 // pin.zxid at the connect request

	// The reader's.
	in        *bufio.Reader
	greeted   bool
	receiving bool   // frames after the connect response are being read
	frameLeft int    // bytes of the current frame not yet passed on
	instead   []byte // passed on in place of a reply
	skip      int    // bytes of that reply to skip

	// Set before the link is greeted.
	made    bool // the session was made on it
	leaving bool // only the requests that close the session pass

	mu          sync.Mutex // guards the rest
	asking      time.Time  // when the connect request was sent; set before the link is greeted
	greetBy     time.Time  // the deadline for granting the session
	up          bool
	voted       time.Time   // when the newest answered write was sent
	epoch       uint64      // of the newest reply; 0 if not known
	outstanding []sentFrame // a queue: replies come in order
	first       int
}

// sentFrame is a request that has not been answered.
type sentFrame struct {
	xid, op int32
	at      time.Time
	own     string // of a listing: only the nearest names before this one are wanted
}

// opened reports whether the session was made on the link, which has been greeted.
func (l *link) opened() bool { return l.made }

// askedAt returns when the connect request was sent.
func (l *link) askedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asking
}

func (l *link) Close() error {
	l.pin.mu.Lock()
	delete(l.pin.links, l)
	l.pin.mu.Unlock()
	return l.Conn.Close()
}

// SetReadDeadline prevents a server that accepts connections and sends nothing from delaying the search
// for another one: the client library waits for the connect response for 6.7 session timeouts, and
// removes the limit between its two reads.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && (t.IsZero() || t.After(l.greetBy)) {
		t = l.greetBy
	}
	return l.Conn.SetReadDeadline(t)
}

// hurry makes the handshake of a link finish earlier, or not at all.
func (l *link) hurry(by time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && by.Before(l.greetBy) {
		l.greetBy = by
		_ = l.Conn.SetReadDeadline(by) // the reader finds errors of the connection
	}
}
