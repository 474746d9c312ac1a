package proxytest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize  = 32 << 10
	queueItems = 256 // kept per direction before the sender is slowed down
	dialLimit  = 10 * time.Second
)

// Link is one client connection through a Proxy, with its connection to the server.
type Link struct {
	proxy *Proxy
	raw   net.Conn // the client's TCP connection

	stalled gate // in addition to the proxy's

	done chan struct{} // closed by Cut or finish

	mu     sync.Mutex
	server net.Conn // nil until dialled
	over   bool
}

// item is one step of a direction: bytes to write or the end of the stream.
type item struct {
	data []byte
	due  time.Time       // not to be written before
	hold <-chan struct{} // not to be written before this is closed, if not nil
	end  ending
}

type ending int

const (
	goOn     ending = iota
	closing         // pass on that the sender has closed its side
	aborting        // reset the link
	ended           // close the link without losing what was written
)

// Cut resets this link, see Proxy.Cut.
func (l *Link) Cut() { l.shutdown(reset) }

// finish closes the link in such a way that what has been written still arrives.
func (l *Link) finish() { l.shutdown(func(c net.Conn) { _ = c.Close() }) }

// Stall is Proxy.Stall for this link. It cannot be undone.
func (l *Link) Stall() { l.stalled.shut() }

// shutdown ends the link, once; its goroutines then end by themselves.
func (l *Link) shutdown(closeConn func(net.Conn)) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.over = true
	server := l.server
	l.mu.Unlock()
	closeConn(l.raw)
	if server != nil {
		closeConn(server)
	}
	close(l.done)
}

// run serves the link and returns when all of its goroutines have ended.
func (l *Link) run() {
	// A stalled network would not let a handshake through either.
	if !l.pass(&l.proxy.toServer, &l.stalled) {
		return
	}
	client, err := l.handshake()
	if err != nil {
		l.Cut()
		return
	}
	server, err := l.dial()
	if err != nil {
		l.Cut()
		return
	}
	fromClient, fromServer := whole, whole
	if l.proxy.zooKeeper != nil {
		s := &session{rules: l.proxy.zooKeeper}
		fromClient, fromServer = s.fromClient, s.fromServer
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.pump(client, server, false, fromClient, &l.proxy.toServer, &l.stalled) })
	wg.Go(func() { l.pump(server, client, true, fromServer, &l.proxy.toClient, &l.stalled) })
	wg.Wait()
	l.finish()
}

// whole passes a chunk on unchanged.
func whole(chunk []byte) []item { return []item{{data: bytes.Clone(chunk)}} }

// handshake does the TLS handshake if the proxy terminates TLS.
func (l *Link) handshake() (net.Conn, error) {
	if l.proxy.tls == nil {
		return l.raw, nil
	}
	ctx, cancel := context.WithTimeout(l.proxy.ctx, dialLimit)
	defer cancel()
	conn := tls.Server(l.raw, l.proxy.tls)
	return conn, conn.HandshakeContext(ctx)
}

func (l *Link) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.proxy.ctx, dialLimit)
	defer cancel()
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", l.proxy.target)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		// Cut came during the dial and did not know this connection.
		reset(server)
		return nil, net.ErrClosed
	}
	l.server = server
	return server, nil
}

// pump moves the bytes of one direction until the stream or the link ends. split turns bytes that have
// arrived into items.
func (l *Link) pump(from, to net.Conn, toClient bool, split func(chunk []byte) []item, gates ...*gate) {
	queue := make(chan item, queueItems)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(queue)
		l.receive(from, toClient, split, queue)
	})
	l.deliver(to, queue, gates)
	// receive may be waiting for bytes that deliver no longer wants; then deliver has ended the link, which
	// has closed the connection.
	wg.Wait()
}

// receive reads until the stream or the link ends.
func (l *Link) receive(from net.Conn, toClient bool, split func(chunk []byte) []item, queue chan<- item) {
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		due := time.Now().Add(l.proxy.latency(toClient))
		items := split(buf[:n])
		switch {
		case errors.Is(err, io.EOF):
			items = append(items, item{end: closing})
		case err != nil:
			items = append(items, item{end: aborting})
		}
		for _, it := range items {
			it.due = due
			select {
			case queue <- it:
			case <-l.done:
				return
			}
			if it.end != goOn {
				return
			}
		}
	}
}

// deliver writes the items in the queue. When it returns, all of the stream has been delivered or the link
// is over.
func (l *Link) deliver(to net.Conn, queue <-chan item, gates []*gate) {
	for it := range queue {
		if !l.waitDue(it) || !l.pass(gates...) {
			return
		}
		if len(it.data) > 0 {
			if _, err := to.Write(it.data); err != nil {
				l.Cut()
				return
			}
		}
		switch it.end {
		case goOn:
		case closing:
			if half, ok := to.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
				l.Cut()
			}
		case aborting:
			l.Cut()
		case ended:
			l.finish()
		}
		if it.end != goOn {
			return
		}
	}
}

// waitDue blocks until the item is due. It returns false if the link ended first.
func (l *Link) waitDue(it item) bool {
	if wait := time.Until(it.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	if it.hold == nil {
		return true
	}
	select {
	case <-it.hold:
		return true
	case <-l.done:
		return false
	}
}

// pass blocks until all gates are open. It returns false if the link ended.
func (l *Link) pass(gates ...*gate) bool {
	for i := 0; i < len(gates); {
		barred := gates[i].barrier()
		if barred == nil {
			i++
			continue
		}
		select {
		case <-barred:
			i = 0 // others may have been shut meanwhile, and this one again
		case <-l.done:
			return false
		}
	}
	return true
}

// gate lets goroutines pass or makes them wait. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	barred chan struct{} // nil while open, closed to let waiters pass
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.barred == nil {
		g.barred = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.barred != nil {
		close(g.barred)
		g.barred = nil
	}
}

// barrier returns a channel that is closed when the gate opens, or nil if it is open.
func (g *gate) barrier() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.barred
}
