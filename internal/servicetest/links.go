package servicetest

import (
	"sync"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/proxytest"
)

// Links are the links of a client process to the servers.
type Links struct {
	Proxies []*proxytest.Proxy // one per server

	mu      sync.Mutex
	resumed int // how often Resume was called
}

// NewLinks makes links to the servers at these addresses, through proxies that start makes.
func NewLinks(t testing.TB, servers []string, start func(t testing.TB, server string) *proxytest.Proxy) *Links {
	t.Helper()
	l := new(Links)
	for _, server := range servers {
		l.Proxies = append(l.Proxies, start(t, server))
	}
	return l
}

// Addrs returns the addresses that the process connects to.
func (l *Links) Addrs() []string {
	var addrs []string
	for _, p := range l.Proxies {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// Each calls do with the proxy of each server.
func (l *Links) Each(do func(*proxytest.Proxy)) {
	for _, p := range l.Proxies {
		do(p)
	}
}

// Only restricts the process to one server until Resume.
func (l *Links) Only(server int) {
	for i, p := range l.Proxies {
		p.Refuse(i != server)
	}
}

// Suspend cuts the process off until Resume.
func (l *Links) Suspend() {
	l.Only(-1)
	l.Cut()
}

// Resume ends Suspend, Only and CutReply.
func (l *Links) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resumed++
	l.Each(func(p *proxytest.Proxy) { p.Refuse(false) })
}

// Cut breaks the links. The process can make new ones at once.
func (l *Links) Cut() { l.Each((*proxytest.Proxy).Cut) }

// UntilResume is for a fault that lasts until Resume, such as CutReply. due reports whether Resume has not
// been called since: the caller may have given up the request before it was sent. bar then refuses new
// links; it checks because a slow reply may come after Resume.
func (l *Links) UntilResume() (due func() bool, bar func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	armed := l.resumed
	due = func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.resumed == armed
	}
	bar = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.resumed == armed {
			l.Only(-1)
		}
	}
	return due, bar
}

// Breakable is a process whose requests a Match tells apart.
type Breakable[Match any] interface {
	Expire()
	LoseReply(Match)
	CutReply(Match)
	LoseRequest(Match)
	Throttle() (release func() int)
	Deny() (release func())
}

// Client is a process as the suites see it. of returns the Match of commits with an op of a kind.
func Client[Match any](b backend.Backend, l *Links, f Breakable[Match], of func(backend.OpKind) Match) *conformance.Client {
	return &conformance.Client{
		Backend:     b,
		Suspend:     l.Suspend,
		Resume:      l.Resume,
		SlowReplies: func(d time.Duration) { l.Each(func(p *proxytest.Proxy) { p.DelayToClient(d) }) },
		HoldRequests: func() (release func()) {
			l.Each((*proxytest.Proxy).StallToServer)
			return func() { l.Each((*proxytest.Proxy).Unstall) }
		},
		Expire:      f.Expire,
		LoseReply:   func(kind backend.OpKind) { f.LoseReply(of(kind)) },
		CutReply:    func(kind backend.OpKind) { f.CutReply(of(kind)) },
		LoseRequest: func(kind backend.OpKind) { f.LoseRequest(of(kind)) },
		Throttle:    f.Throttle,
		Deny:        f.Deny,
	}
}
