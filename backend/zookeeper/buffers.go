package zookeeper

import (
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// firstBuffer is how large both buffers of a session begin, in bytes.
const firstBuffer = 4 << 10

// buffers are the client library's two: one in which it puts requests together, and one on each
// link for answers. By itself it makes both for the largest that there may be, 1 MB and more
// for each session, and what a link leaves behind has to be cleared for the next one. Here
// they begin small and grow with what is sent.
//
// Both belong to goroutines of the library's, which may have them replaced only while they
// call something of this package: its options, which do it, are no more than functions that
// set a field.
type buffers struct {
	conn *zk.Conn // nil in tests of the wire
	// maxAnswer is the longest answer that is taken, in bytes; 0 means any.
	maxAnswer int

	size atomic.Int64 // of the one for requests, or less: see hold
	want atomic.Int64 // what it has to grow to
	// held is set while the library's own buffer for requests is there, and until when that is.
	held  bool
	until time.Time
}

// begin is the library's option that has a connection begin with a buffer of this size for
// requests. It is called before the connection's goroutines are there.
//
// The library has made its own by then. To let go of that at once would be worse than to keep
// it for a while: where many sessions are opened at once, each would get what an earlier one has
// left behind, and clearing a megabyte takes longer than all else that opening takes. A buffer
// that nobody has had before is not cleared, and takes no memory but for the pages that are
// used. It counts in the heap's size all the same: so it is let go of at once in a process whose
// memory has a limit.
func (b *buffers) begin(first int, hold time.Duration) func(*zk.Conn) {
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
	if b.conn == nil {
		return
	}
	b.grow()
	zk.WithMaxBufferSize(firstBuffer)(b.conn)
}

// receiving is called on the goroutine that receives, once that has made its buffer for the
// link. It makes another for each answer that is longer, up to the limit that it has from now on.
func (b *buffers) receiving() {
	if b.conn != nil {
		zk.WithMaxBufferSize(b.maxAnswer)(b.conn)
	}
}

// grow is called on the goroutine that sends, when a request is in the link's hands. The next
// one is put together in a buffer that is large enough.
func (b *buffers) grow() {
	if b.conn == nil {
		return
	}
	want, size := b.want.Load(), b.size.Load()
	if want > size || b.held && time.Now().After(b.until) {
		want = max(want, size)
		zk.WithMaxConnBufferSize(int(want))(b.conn)
		b.size.Store(want)
		b.held = false
	}
}

// makeRoom makes the buffer large enough for a request of so many bytes that is sent after
// it has returned. If the buffer is not yet, it asks the server something small first: so
// the goroutine that sends gets to replace it, or there is another link, which begins with
// replacing it. It blocks until that is answered, or the session is over.
func (s *session) makeRoom(request int) {
	b, most := &s.pin.buffers, int64(s.cfg.MaxRequest+sendSlack)
	want, size := int64(request+sendSlack), b.size.Load()
	if want <= size {
		return
	}
	want = max(want, min(2*size, most)) // lest each value that is a little longer costs a round trip
	for {
		have := b.want.Load()
		if have >= want || b.want.CompareAndSwap(have, want) {
			break
		}
	}
	_, _, _ = s.conn.Exists("/") // whatever comes of it: what follows says so itself
}
