package wire

import (
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// FirstBuffer is the initial size of both buffers of a session, in bytes.
const FirstBuffer = 4 << 10

// buffers are the client library's two: one in which it encodes requests, and one on each link for
// replies. By default it makes both for the largest possible size, 1 MB and more for each session, and
// the memory that a link leaves behind must be cleared for the next one.
//
// Both belong to goroutines of the library. They may be replaced only while these goroutines call into
// this package, by the library's options, which are merely functions that set a field.
type buffers struct {
	conn      *zk.Conn
	maxAnswer int // see New

	size atomic.Int64 // of the one for requests, or less: see WithBuffer
	want atomic.Int64 // what it must grow to
	// held is set while the library's own buffer for requests exists, which is until the time in until.
	held  bool
	until time.Time
}

// WithBuffer returns the library's option that makes a connection start with a buffer of this size for
// requests. The option is called before the connection's goroutines exist.
//
// The library has made its own buffer by then. To release that at once would be worse than to keep it
// for a while: if many sessions are opened at once, each would get memory that an earlier one has left
// behind, and clearing a megabyte takes longer than all other work of opening. A fresh buffer is not
// cleared, and takes no memory except for the pages that are used. But it counts in the heap's size: so
// it is released at once in a process whose memory has a limit.
func (p *Pin) WithBuffer(first int, hold time.Duration) func(*zk.Conn) {
	b := &p.buffers
	return func(c *zk.Conn) {
		b.size.Store(int64(first))
		b.conn = c
		b.held = first <= 1<<20 && debug.SetMemoryLimit(-1) == math.MaxInt64
		if b.until = time.Now().Add(hold); !b.held {
			zk.WithMaxConnBufferSize(first)(c)
		}
	}
}

// dialing is called before each link, when the library neither sends nor receives.
func (b *buffers) dialing() {
	b.grow()
	zk.WithMaxBufferSize(FirstBuffer)(b.conn)
}

// receiving is called on the receiving goroutine, after that has made its buffer for the link. The
// goroutine makes another one for each longer reply, up to the limit that is set here.
func (b *buffers) receiving() {
	zk.WithMaxBufferSize(b.maxAnswer)(b.conn)
}

// grow is called on the sending goroutine, after a request or a ping has reached the link. The next
// request is encoded in a buffer that is large enough.
func (b *buffers) grow() {
	want, size := b.want.Load(), b.size.Load()
	if want > size || b.held && time.Now().After(b.until) {
		want = max(want, size)
		zk.WithMaxConnBufferSize(int(want))(b.conn)
		b.size.Store(want)
		b.held = false
	}
}

// Reserve asks for a buffer of want bytes for requests, or more, up to most, and reports whether that is
// pending: it is made with the next request, or the next link.
func (p *Pin) Reserve(want, most int) (pending bool) {
	b, size := &p.buffers, int(p.buffers.size.Load())
	if want <= size {
		return false
	}
	want = max(want, min(2*size, most)) // otherwise each slightly longer value would cost a round trip
	for have := b.want.Load(); have < int64(want) && !b.want.CompareAndSwap(have, int64(want)); {
		have = b.want.Load()
	}
	return true
}
