package main

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// pings counts the heartbeats (pings and syncs) that clients send, so that they can be told from
// what a handover costs, and the other requests. Each has one answer.
type pings struct{ n, requests atomic.Int64 }

// dial is a dialer for the clients whose pings are to be counted.
func (p *pings) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return pingConn{conn, p}, nil
}

type pingConn struct {
	net.Conn
	pings *pings
}

// Write looks for heartbeats: pings, which are requests of eight bytes with xid -2,
// and syncs, by which the backend has the ensemble's leader confirm the session. The
// client library writes each request whole.
func (c pingConn) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		xid, op := int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:]))
		const pingXid, opSync = -2, 9
		if xid == pingXid || op == opSync {
			c.pings.n.Add(1)
		} else if xid > 0 { // the client library's own have none, or a negative one
			c.pings.requests.Add(1)
		}
	}
	return c.Conn.Write(b)
}
