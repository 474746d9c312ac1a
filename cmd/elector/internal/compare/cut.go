package compare

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// A line is a candidate's connections to a service. When it is cut they break, and no
// others can be made, as when the candidate's machine has died: it says no goodbye, and
// the service goes by its heartbeats.
type line struct {
	beats *atomic.Int64 // where heartbeats are counted, if they are

	mu    sync.Mutex
	dead  bool
	conns map[*conn]struct{}
}

type conn struct {
	net.Conn
	line *line
}

// Write counts ZooKeeper's heartbeats: pings, which are requests with xid -2, and syncs, by
// which the backend has the ensemble's leader confirm the session. The client library
// writes each request whole.
func (c *conn) Write(b []byte) (int, error) {
	if c.line.beats != nil && len(b) >= 12 {
		xid, op := int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:]))
		const ping, sync = -2, 9
		if xid == ping || op == sync {
			c.line.beats.Add(1)
		}
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

// dial is a dial.DialContext.
func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	if l.isDead() {
		return nil, refused
	}
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead { // cut meanwhile, which did not know of it
		_ = raw.Close()
		return nil, refused
	}
	if l.conns == nil {
		l.conns = make(map[*conn]struct{})
	}
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // what is on its way is lost, too
		}
		_ = c.Conn.Close() // whatever it says, nothing goes through it any more
	}
	clear(l.conns)
}

// mend lets new connections be made.
func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}
