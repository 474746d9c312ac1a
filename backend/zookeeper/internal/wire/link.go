package wire

import (
	"bufio"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pin sees every frame of one zk.Conn, over all its links, and restricts it to one session.
type Pin struct {
	events  Events
	queue   Queue
	buffers buffers
	watched watched
	beats   bool         // see Beats
	asks    atomic.Int32 // calls of Ask on all links
	ack     sync.Once
	acked   chan struct{} // see CloseAcked

	mu       sync.Mutex
	session  int64  // 0 until the first is granted
	password []byte // of the session
	zxid     int64  // the newest zxid of a reply
	shown    int64  // the newest zxid of an event
	refuse   error  // set once no more links may be made
	leaving  bool   // new links are only for closing the session
	links    map[*Link]struct{}
	link     *Link // the last one that was greeted
}

// Events are what a session learns from its frames. All are called on the client library's goroutines,
// and must not block.
type Events struct {
	Granted  func(id int64, timeout time.Duration, sent time.Time) error // an error ends the link
	Answered func(sent time.Time)                                        // a reply that proves that the session lives
	Voted    func(sent time.Time, epoch uint64)                          // a write was answered
	Expired  func()                                                      // or replaced by another session
	Foreign  func()                                                      // the first server is not Apache ZooKeeper's
}

// New returns a Pin without links. maxAnswer is the longest reply that is accepted, in bytes, or 0 if
// there is no limit.
func New(e Events, q Queue, maxAnswer int) *Pin {
	return &Pin{events: e, queue: q, buffers: buffers{maxAnswer: maxAnswer}, acked: make(chan struct{}), links: make(map[*Link]struct{})}
}

// Beats says that the session sends a request every quarter of its timeout, and more, and gives up a link that does
// not answer by then. So the client library's pings, which come every third, do not go out unless that stops, and its
// limits for each read and write, of two thirds, are not set: two timers a request. It is called before the first
// link.
func (p *Pin) Beats() { p.beats = true }

// Stop refuses new links.
func (p *Pin) Stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse == nil {
		p.refuse = err
	}
}

// CloseOnly restricts all links that are greeted from now on to closing the session.
func (p *Pin) CloseOnly() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
}

// CloseAcked is closed once the server has replied to a close request.
func (p *Pin) CloseAcked() <-chan struct{} { return p.acked }

// Links returns all links.
func (p *Pin) Links() []*Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.links))
}

// Kill closes all links, and refuses new ones.
func (p *Pin) Kill(err error) {
	p.Stop(err)
	p.Cut()
}

// Cut closes all links; new ones may be made.
func (p *Pin) Cut() {
	for _, l := range p.Links() {
		_ = l.Close() // the client library notices
	}
}

// Current returns the last link that was greeted.
func (p *Pin) Current() *Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// Password returns the session's password, or nil if none was granted.
func (p *Pin) Password() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.password
}

// Newest returns the newest zxid of a reply: any write sent from now on gets a higher one.
func (p *Pin) Newest() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.zxid)
}

// Dialing prepares the client library for another link. It returns an error if none may be made.
func (p *Pin) Dialing() error {
	p.buffers.dialing()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

// Attach wraps a new TCP connection.
func (p *Pin) Attach(conn net.Conn, handshake time.Duration) (*Link, error) {
	l := &Link{Conn: conn, pin: p, in: bufio.NewReaderSize(conn, lookAhead), greetBy: time.Now().Add(handshake), answers: make(chan int32, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, p.refuse
	}
	p.links[l] = struct{}{}
	return l, nil
}

// A Link is one TCP (or TLS) connection of a Pin. The client library writes from one goroutine at a
// time and reads from one.
type Link struct {
	net.Conn
	pin *Pin

	// The writer's, which holds writing: the library, or Ask.
	writing sync.Mutex
	asked   bool  // the connect request has been sent
	began   int64 // pin.zxid at the connect request
	sent    time.Time

	// See Authenticate. They are set before anything is written.
	sasl       Exchange
	saslFailed func(error)
	unanswered func(error) // see Unanswered

	// The reader's.
	in        *bufio.Reader
	greeted   bool
	receiving bool   // frames after the connect response are being read
	frameLeft int    // bytes of the current frame not yet passed on
	instead   []byte // passed on in place of a reply
	skip      int    // bytes of that reply to skip

	// Set before the link is greeted.
	opened  bool          // see Opened
	leaving bool          // only the requests that close the session pass
	timeout time.Duration // of the session, as granted

	mu          sync.Mutex // guards the rest
	askedAt     time.Time  // see AskedAt
	greetBy     time.Time  // the deadline for granting the session
	up          bool
	voted       time.Time   // when the newest answered write was sent
	epoch       uint64      // of the newest reply; 0 if not known
	outstanding []sentFrame // oldest first: replies come in order
	answers     chan int32  // to Ask: codes; closed when the link is over
	over        bool
	second      func() bool // of Ask
}

// sentFrame is a request that has not been answered.
type sentFrame struct {
	xid, op int32
	at      time.Time
	own     string // of a listing: only the nearest names before this one are wanted
	user    string // it sets a watch of the user: as Unwatch asks
}

// Unanswered makes the link call failed with the error that ends it in place of a reply to the connect request:
// over TLS 1.3 a server says only then that it refuses the client's certificate. It must be called before
// anything is written.
func (l *Link) Unanswered(failed func(error)) { l.unanswered = failed }

// Opened reports whether the session was made on the link, which has been greeted.
func (l *Link) Opened() bool { return l.opened }

// AskedAt returns when the connect request was sent, or the zero Time.
func (l *Link) AskedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.askedAt
}

// NewestVote returns when the newest vote on the link was sent, and the epoch of the last reply, or 0.
func (l *Link) NewestVote() (sent time.Time, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.voted, l.epoch
}

// Close closes the connection.
func (l *Link) Close() error {
	l.pin.mu.Lock()
	delete(l.pin.links, l)
	l.pin.mu.Unlock()
	l.mu.Lock()
	closed := l.over
	l.over = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.answers)
	return l.Conn.Close()
}

// SetReadDeadline prevents a server that accepts connections and sends nothing from delaying the search
// for another one: the client library waits for the connect response for 6.7 session timeouts, and
// removes the limit between its two reads. After that see Beats.
func (l *Link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.up && (t.IsZero() || t.After(l.greetBy)):
		t = l.greetBy
	case l.up && l.pin.beats:
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

// SetWriteDeadline is called before and after each request: see Beats.
func (l *Link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up && l.pin.beats {
		return nil
	}
	return l.Conn.SetWriteDeadline(t)
}

// Hurry makes the handshake of a link finish earlier, or not at all.
func (l *Link) Hurry(by time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && by.Before(l.greetBy) {
		l.greetBy = by
		_ = l.Conn.SetReadDeadline(by) // the reader finds errors of the connection
	}
}
