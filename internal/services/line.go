package services

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// A Line is a client's connections to a service. When it is cut they break, and no others can be made, as
// if the client's machine had died: it sends no farewell, and the service only notices missing heartbeats.
type Line struct {
	Traffic *Traffic // counts what is sent, if not nil

	mu    sync.Mutex
	dead  bool
	conns map[*conn]struct{}
}

type conn struct {
	net.Conn
	raw  net.Conn
	line *Line
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

// Dial has the signature of net.Dialer.DialContext.
func (l *Line) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	if l.isDead() {
		return nil, refused // do not bother the server
	}
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, raw, l}
	if l.Traffic != nil {
		c.Conn = l.Traffic.Count(raw)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead { // Cut came meanwhile and did not know this connection
		_ = raw.Close()
		return nil, refused
	}
	if l.conns == nil {
		l.conns = make(map[*conn]struct{})
	}
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *Line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Cut breaks all connections and prevents new ones.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.conns {
		if tcp, ok := c.raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // bytes on their way are lost, too
		}
		_ = c.raw.Close() // with any error, nothing passes any more
	}
	clear(l.conns)
}

// Mend permits new connections.
func (l *Line) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

// Traffic is what clients of ZooKeeper have sent. Each request has one reply.
type Traffic struct {
	Heartbeats atomic.Int64
	Requests   atomic.Int64 // others, except the client library's own
}

// Count counts what is written to a connection. The client library writes each request in one piece.
func (t *Traffic) Count(conn net.Conn) net.Conn { return counted{conn, t} }

type counted struct {
	net.Conn
	to *Traffic
}

// Write recognizes heartbeats by their parts: pings, which are requests of eight bytes with xid -2, and
// syncs, with which the backend makes the ensemble's leader confirm the session.
func (c counted) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		xid, op := int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:]))
		const ping, sync = -2, 9
		if xid == ping || op == sync {
			c.to.Heartbeats.Add(1)
		} else if xid > 0 { // the client library's own have no xid, or a negative one
			c.to.Requests.Add(1)
		}
	}
	return c.Conn.Write(b)
}
