// Package consultest shows real Consul servers to the conformance suites: client
// processes whose links, requests and replies can be broken, and an operator.
package consultest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/asynclog/asynclogtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
)

// Options say what kind of process to make.
type Options struct {
	Config consul.Config
	// Token is the ACL token of the process's client.
	Token string
	// Apart gives the requests that wait connections of their own (consul.Config.Watches).
	Apart bool
}

// A Process is one client process: a backend whose client has connections of its
// own, through proxies of its own, one per server. The client knows one address, as
// that of a load balancer: each new connection goes to a server that can be reached.
type Process struct {
	Backend *consul.Backend
	Client  *api.Client
	Proxies []*proxytest.Proxy // one per server

	Servers []*servertest.Consul // behind the proxies

	Close func() // ends the connections that nobody uses

	t testing.TB

	wire

	mu      sync.Mutex
	at      int    // where the last connection went
	barred  []bool // by server
	resumed int    // how often
}

// NewProcess makes a process.
func NewProcess(t testing.TB, servers []*servertest.Consul, o Options) *Process {
	t.Helper()
	p := &Process{t: t, Servers: servers, barred: make([]bool, len(servers))}
	for _, server := range servers {
		p.Proxies = append(p.Proxies, proxytest.ForTest(t, server.Addr()))
	}
	p.Client, p.Close = p.newClient(o)
	if o.Apart {
		o.Config.Watches, _ = p.newClient(o)
	}
	if o.Config.Logger == nil {
		o.Config.Logger = asynclogtest.Stuck(t)
	}
	var err error
	p.Backend, err = consul.New(p.Client, o.Config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newClient makes a client with connections of its own, which closeIdle ends where nobody uses
// them.
func (p *Process) newClient(o Options) (client *api.Client, closeIdle func()) {
	p.t.Helper()
	cfg := api.DefaultConfig() // with the transport that users have
	cfg.Address, cfg.Token = p.Proxies[0].Addr(), o.Token
	cfg.Transport.Proxy, cfg.Transport.DialContext = nil, p.dial
	p.t.Cleanup(cfg.Transport.CloseIdleConnections)
	cfg.HttpClient = &http.Client{Transport: over{&p.wire, cfg.Transport}}
	client, err := api.NewClient(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return client, cfg.Transport.CloseIdleConnections
}

// dial connects to the server of the connection before, or to another if that is down.
func (p *Process) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	i, ok := p.pick()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, p.Proxies[i].Addr())
}

// pick chooses the server for a connection, as a load balancer does that knows who
// is well. If none is, the connection meets what there is.
func (p *Process) pick() (server int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.Servers {
		i = (p.at + i) % len(p.Servers)
		if p.barred[i] {
			continue
		}
		if p.Servers[i].Running() && !p.Servers[i].Paused() {
			p.at = i
			return i, true
		}
		if !ok {
			server, ok = i, true
		}
	}
	return server, ok
}

// bar decides for each server whether it can be connected to.
func (p *Process) bar(barred func(server int) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.barLocked(barred)
}

func (p *Process) barLocked(barred func(server int) bool) {
	for i, proxy := range p.Proxies {
		p.barred[i] = barred(i)
		proxy.Refuse(p.barred[i])
	}
}

// Each does something to the proxy of each server.
func (p *Process) Each(do func(*proxytest.Proxy)) {
	for _, proxy := range p.Proxies {
		do(proxy)
	}
}

// Only keeps the process to one server until Resume.
func (p *Process) Only(server int) { p.bar(func(i int) bool { return i != server }) }

// Suspend cuts the process off until Resume.
func (p *Process) Suspend() {
	p.bar(func(int) bool { return true })
	p.Cut()
}

// Resume ends what Suspend, Only and CutReply began.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed++
	p.barLocked(func(int) bool { return false })
}

// Cut breaks the links; they can be made anew at once.
func (p *Process) Cut() { p.Each((*proxytest.Proxy).Cut) }

// Expire has the servers end all sessions of the process, and the process hear of
// it when it comes back.
func (p *Process) Expire() {
	p.t.Helper()
	p.Suspend()
	defer p.Resume()
	for _, id := range p.Sessions() {
		if err := Destroy(p.Servers, id); err != nil {
			p.t.Fatal(err)
		}
	}
}

// LoseReply has the reply to the next request that matches lost.
func (p *Process) LoseReply(match func(*http.Request, []byte) bool) {
	p.once(match, func(send Send) (*http.Response, error) {
		return p.lose(send, p.Cut)
	})
}

// CutReply also keeps the process from coming back until Resume.
func (p *Process) CutReply(match func(*http.Request, []byte) bool) {
	p.mu.Lock()
	armed := p.resumed
	p.mu.Unlock()
	until := func(r *http.Request, body []byte) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.resumed == armed && match(r, body) // its request may have been given up unsent
	}
	p.once(until, func(send Send) (*http.Response, error) {
		return p.lose(send, func() {
			p.mu.Lock()
			if p.resumed == armed { // a reply that was slow may come after Resume
				p.barLocked(func(int) bool { return true })
			}
			p.mu.Unlock()
			p.Cut()
		})
	})
}

// lose sends a request and loses the reply. One that was not sent is no loss.
func (p *Process) lose(send Send, broken func()) (*http.Response, error) {
	response, err := send()
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	broken()
	return nil, errReset
}

// Throttle has the servers turn all requests of the process away until release is called, as
// limits.request_limits has them do. It returns how many there were.
func (p *Process) Throttle() (release func() int) {
	var n atomic.Int64
	remove := p.Intercept(func(*http.Request, []byte, Send) (*http.Response, error) {
		n.Add(1)
		return Answer(http.StatusTooManyRequests, "rate limit exceeded, try again later or against a different server"), nil
	})
	return func() int { remove(); return int(n.Load()) }
}

// Deny has the servers refuse what the process asks of keys until release is called, as they
// refuse a token without the rights.
func (p *Process) Deny() (release func()) {
	return p.Intercept(func(request *http.Request, _ []byte, send Send) (*http.Response, error) {
		if strings.HasPrefix(request.URL.Path, "/v1/kv/") || request.URL.Path == "/v1/txn" {
			return Answer(http.StatusForbidden, "Permission denied: token lacks permission 'key:write'"), nil
		}
		return send()
	})
}

// LoseRequest has the next request that matches lost.
func (p *Process) LoseRequest(match func(*http.Request, []byte) bool) {
	p.once(match, func(Send) (*http.Response, error) {
		p.Cut()
		return nil, errReset
	})
}

// DelayRequest has the next request that matches arrive d later, whatever has become of its
// caller. sent tells whether there was one.
func (p *Process) DelayRequest(match func(*http.Request, []byte) bool, d time.Duration) (sent func() bool) {
	var met atomic.Bool
	p.Intercept(func(request *http.Request, body []byte, send Send) (*http.Response, error) {
		if met.Load() || !match(request, body) || !met.CompareAndSwap(false, true) {
			return send()
		}
		caller := request.Context()
		*request = *request.WithContext(context.WithoutCancel(caller)) // it is the wire's own
		type answer struct {
			response *http.Response
			err      error
		}
		answered := make(chan answer)
		go func() {
			time.Sleep(d)
			response, err := send()
			select {
			case answered <- answer{response, err}:
			case <-caller.Done():
				if err == nil {
					_ = response.Body.Close()
				}
			}
		}()
		select {
		case a := <-answered:
			return a.response, a.err
		case <-caller.Done():
			return nil, caller.Err()
		}
	})
	return met.Load
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
