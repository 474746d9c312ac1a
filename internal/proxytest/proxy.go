// Package proxytest puts a TCP proxy in front of a server to inject faults: connections that break, stall
// or lag, and single ZooKeeper messages that are lost, late or refused.
//
//	proxy := proxytest.ZooKeeperForTest(t, zk.Addr())
//	// connect a client to proxy.Addr(), then:
//	lost := proxy.DropReply(proxytest.MatchOp(proxytest.OpCreate), 1)
//	// the create is applied, its reply never arrives
//	<-lost
package proxytest

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/internal/loopback"
)

// Proxy is a TCP proxy on the loopback interface that injects faults between clients and one server. Its
// settings act on all links, present and future; a [Link] is one client connection together with its
// connection to the server.
//
// Bytes are never lost, changed or reordered on a link that stays open, except by the rules that do that
// (DropReply, DropRequest). All methods may be called from any goroutine. None blocks on the network; Close
// waits, but only for the proxy's own goroutines.
//
// Any protocol passes through. The methods for single messages (OnRequest, DropReply, DropRequest,
// RefuseReply, TurnAway, HoldReply) need a proxy that ZooKeeperForTest has made.
type Proxy struct {
	listener net.Listener
	port     int
	tls      *tls.Config // terminates TLS if set
	accepted atomic.Int64

	toServer, toClient gate

	Rules              // its own
	zooKeeper []*Rules // Rules and shared rules, if the proxied protocol is ZooKeeper's

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accept loop and the links

	target string

	mu            sync.Mutex
	refuse        bool
	delay, jitter time.Duration
	behind        time.Duration // added towards clients
	links         []*Link       // open ones, oldest first
	closed        bool
}

// New starts a proxy to the server at target, which need not be running. The caller closes it.
func New(target string) (*Proxy, error) { return start(target, func(*Proxy) {}) }

// start starts a proxy after prepare has configured it.
func start(target string, prepare func(*Proxy)) (*Proxy, error) {
	listener, port, err := loopback.Listen()
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, port: port, target: target}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	prepare(p)
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients connect to. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted returns how many connections clients have opened so far, including refused ones.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Close cuts all links, stops listening, and blocks until all of the proxy's goroutines have ended. It may
// be called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	err := p.listener.Close()
	p.Cut()
	p.wg.Wait()
	if !first {
		return nil
	}
	loopback.Release(p.port)
	return err
}

// Refuse sets whether new connections are reset as soon as they have been accepted. Present links stay.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Refuses reports whether new connections are reset.
func (p *Proxy) Refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

// Cut resets all present links at once: both the clients and the server see a connection reset, and bytes
// on their way are lost. It works on stalled links, too. New links are not affected.
func (p *Proxy) Cut() {
	for _, link := range p.Links() {
		link.Cut()
	}
}

// Stall makes all links half-open in both directions: connections stay open and new ones are accepted, but
// nothing arrives at the other end, not even a close. The bytes are kept and delivered in order after
// Unstall; if the link is cut in the meantime they are lost. After some hundred chunks per direction the
// sender is slowed down as by a full network buffer. A chunk that is being passed on during the call may
// still arrive; a chunk sent after Stall has returned does not.
func (p *Proxy) Stall() {
	p.toServer.shut()
	p.toClient.shut()
}

// StallToServer is Stall for the clients' direction only.
func (p *Proxy) StallToServer() { p.toServer.shut() }

// StallToClient is Stall for the server's direction only.
func (p *Proxy) StallToClient() { p.toClient.shut() }

// Unstall ends Stall, StallToServer and StallToClient.
func (p *Proxy) Unstall() {
	p.toServer.open()
	p.toClient.open()
}

// Delay slows the network down: every chunk, in each direction, arrives d plus a random part of jitter
// after it was sent, in order. Zero ends it. Chunks that are on their way keep their delay.
func (p *Proxy) Delay(d, jitter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.jitter = d, jitter
}

// DelayToClient delays what the server sends, in addition to Delay.
func (p *Proxy) DelayToClient(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = d
}

// latency returns the delay of one chunk.
func (p *Proxy) latency(toClient bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.delay
	if toClient {
		d += p.behind
	}
	if p.jitter > 0 {
		d += rand.N(p.jitter)
	}
	return d
}

// Links returns the links that are open now, oldest first.
func (p *Proxy) Links() []*Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.links)
}

// accept runs until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil {
				return
			}
			// Perhaps the process is out of file descriptors: do not spin.
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		p.accepted.Add(1)
		p.mu.Lock()
		if p.refuse || p.closed {
			p.mu.Unlock()
			reset(conn)
			continue
		}
		link := &Link{proxy: p, raw: conn, done: make(chan struct{})}
		p.links = append(p.links, link)
		p.mu.Unlock()
		p.wg.Go(func() {
			link.run()
			p.mu.Lock()
			p.links = slices.DeleteFunc(p.links, func(other *Link) bool { return other == link })
			p.mu.Unlock()
		})
	}
}

// reset closes a connection in such a way that the peer sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	_ = conn.Close()
}
