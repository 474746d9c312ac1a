// Package consultest runs real Consul servers for the conformance suites, with client processes whose
// links, requests and replies can be broken, and an operator.
package consultest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/asynclog/asynclogtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
)

// Options say what kind of process to make.
type Options struct {
	Config consul.Config
	// Token is the ACL token of the process's client.
	Token string
	// Apart gives the requests that wait their own connections (consul.Config.Watches).
	Apart bool
}

// A Process is one client process: a backend whose client has its own connections, through its own
// proxies, one per server. The client knows one address, like a load balancer's: each new connection
// goes to a server that can be reached.
type Process struct {
	Backend *consul.Backend
	Client  *api.Client
	Servers []*servertest.Consul // behind the proxies
	*servicetest.Links

	Close func() // ends the connections that nobody uses

	t testing.TB

	wire

	mu sync.Mutex
	at int // where the last connection went
}

// NewProcess makes a process.
func NewProcess(t testing.TB, servers []*servertest.Consul, o Options) *Process {
	t.Helper()
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	p := &Process{t: t, Servers: servers, Links: servicetest.NewLinks(t, addrs, proxytest.ForTest)}
	p.Faults = servicetest.NewFaults[api.TxnOps](p.Links, errReset)
	p.Client, p.Close = p.newClient(o)
	if o.Apart {
		o.Config.Watches, _ = p.newClient(o)
	}
	if o.Config.Logger == nil {
		o.Config.Logger = asynclogtest.Stuck(t)
	}
	p.Backend = must.Get(consul.New(p.Client, o.Config))(t)
	return p
}

// newClient makes a client with its own connections. closeIdle ends those that nobody uses.
func (p *Process) newClient(o Options) (client *api.Client, closeIdle func()) {
	p.t.Helper()
	cfg := api.DefaultConfig() // with the transport that users have
	cfg.Address, cfg.Token = p.Proxies[0].Addr(), o.Token
	cfg.Transport.Proxy, cfg.Transport.DialContext = nil, p.dial
	p.t.Cleanup(cfg.Transport.CloseIdleConnections)
	cfg.HttpClient = &http.Client{Transport: over{&p.wire, cfg.Transport}}
	return must.Get(api.NewClient(cfg))(p.t), cfg.Transport.CloseIdleConnections
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

// pick chooses the server for a connection, like a load balancer that knows which are well. If none is,
// the connection meets what there is.
func (p *Process) pick() (server int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.Servers {
		i = (p.at + i) % len(p.Servers)
		if p.Proxies[i].Refuses() {
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

// Expire makes the servers end all sessions of the process, which learns of it when it comes back.
func (p *Process) Expire() {
	p.t.Helper()
	p.Suspend()
	defer p.Resume()
	for _, id := range p.Sessions() {
		require.NoError(p.t, Destroy(p.Servers, id))
	}
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
