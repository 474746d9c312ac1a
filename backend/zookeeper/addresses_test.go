//go:build unix

package zookeeper_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// names is a DNS server for names that end in ".test". Others do not exist.
type names struct {
	mu    sync.Mutex
	hosts map[string][]string // addresses by name, in the order of the answer; "" is no answer
	asked map[string]bool     // for these names
}

var dns = &names{hosts: make(map[string][]string), asked: make(map[string]bool)}

func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go dns.serve(theirs)
		return ours, nil
	}}
}

func (n *names) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name+"."] = addresses
}

// wasAsked reports whether somebody wanted to know the addresses of a name.
func (n *names) wasAsked(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name+"."]
}

// serve answers requests on a stream.
func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var length uint16
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		request := make([]byte, length)
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		if answer := n.answer(request); answer != nil {
			_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}
	}
}

// answer answers one question, which comes behind a head of 12 bytes.
func (n *names) answer(request []byte) []byte {
	var name strings.Builder
	at := 12
	for request[at] > 0 {
		label := request[at+1:][:request[at]]
		name.Write(label)
		name.WriteByte('.')
		at += 1 + len(label)
	}
	question := request[12 : at+5]
	n.mu.Lock()
	addresses, known := n.hosts[strings.ToLower(name.String())]
	n.asked[strings.ToLower(name.String())] = true
	n.mu.Unlock()
	var answers []byte
	for _, a := range addresses {
		if a == "" {
			return nil
		}
		ip := netip.MustParseAddr(a).As4()
		answers = append(answers, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name in the question, A, IN, for no time
		answers = append(answers, ip[:]...)
	}
	answer := append([]byte{}, request[:12]...)
	copy(answer[2:], []byte{0x81, 0x80, 0, 1, 0, byte(len(answers) / 16), 0, 0, 0, 0})
	switch {
	case !known:
		answer[3] |= 3 // no such name
	case question[len(question)-3] != 1: // not A
		answer[7], answers = 0, nil
	}
	return append(append(answer, question...), answers...)
}

// An ensemble is a server that is reached by several addresses of this machine, all with one port.
type addressed struct {
	t      *testing.T
	server string
	port   int

	links atomic.Int64 // that were made to the server

	mu    sync.Mutex
	conns map[string][]io.Closer // by address
}

func newAddressed(t *testing.T) *addressed {
	t.Helper()
	ports := must.Get(loopback.Ports(1))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	a := &addressed{t: t, server: servertest.SharedZooKeeper(t).Addr(), port: ports[0], conns: make(map[string][]io.Closer)}
	t.Cleanup(func() {
		a.mu.Lock()
		ips := slices.Collect(maps.Keys(a.conns))
		a.mu.Unlock()
		a.close(ips...)
	})
	return a
}

func (a *addressed) keep(ip string, c io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[ip] = append(a.conns[ip], c)
}

// open accepts connections at an address. A silent address sends nothing on.
func (a *addressed) open(silent bool, ips ...string) {
	for _, ip := range ips {
		l := must.Get(net.Listen("tcp", fmt.Sprintf("%s:%d", ip, a.port)))(a.t)
		a.keep(ip, l)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				a.keep(ip, conn)
				if silent {
					continue
				}
				to, err := net.Dial("tcp", a.server)
				if err != nil {
					return
				}
				a.keep(ip, to)
				a.links.Add(1)
				go func() { _, _ = io.Copy(to, conn) }()
				go func() { _, _ = io.Copy(conn, to); conn.Close() }()
			}
		}()
	}
}

// drop makes packets to an address get lost, until accept is called, as the kernel drops them for a listener whose
// queue is full.
func (a *addressed) drop(ip string) (accept func()) {
	fd := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0))(a.t)
	a.t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(a.t, syscall.Bind(fd, &syscall.SockaddrInet4{Port: a.port, Addr: netip.MustParseAddr(ip).As4()}))
	require.NoError(a.t, syscall.Listen(fd, 0))
	for {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", ip, a.port), 100*time.Millisecond)
		if err != nil {
			break
		}
		a.t.Cleanup(func() { _ = conn.Close() })
	}
	return func() {
		for range 2 { // the queue's length and one
			if accepted, _, err := syscall.Accept(fd); err == nil {
				a.t.Cleanup(func() { _ = syscall.Close(accepted) })
			}
		}
	}
}

// cut breaks all connections of an address. They may be made again.
func (a *addressed) cut(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns[ip] {
		if _, listens := c.(net.Listener); !listens {
			_ = c.Close()
		}
	}
}

// close refuses connections at an address from now on, and breaks those that are there.
func (a *addressed) close(ips ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		for _, c := range a.conns[ip] {
			_ = c.Close()
		}
		delete(a.conns, ip)
	}
}

// moved calls then, which breaks the session's link, and waits until the session goes on with another. It may have been
// suspended for a moment only.
func (a *addressed) moved(s *backend.Session, then func()) {
	a.t.Helper()
	before := a.links.Load()
	then()
	wait.For(a.t, "another link", func() bool { return a.links.Load() > before || s.State() == backend.Lost })
	ctx, cancel := context.WithTimeout(a.t.Context(), wait.Patience)
	defer cancel()
	servicetest.AwaitState(ctx, a.t, s, backend.Live)
	assert.NoError(a.t, s.Close(ctx))
}

// opened returns a session. On a busy machine a short ConnectTimeout may not do for the first attempt.
func opened(t *testing.T, b *zookeeper.Backend) (s *backend.Session) {
	t.Helper()
	wait.For(t, "a session", func() bool {
		var err error
		s, err = b.Open(t.Context(), backend.OpenOptions{})
		return err == nil
	})
	return s
}

// A server's name may have several addresses, which may change, and not all of which may answer. The session
// continues at those that do.
func TestAddresses(t *testing.T) {
	for i, c := range []struct {
		name   string
		before []string // addresses of the name; two of them drop packets
		then   func(a *addressed, name string)
	}{
		{"all addresses change", []string{"127.9.0.1", "127.9.0.2", "127.9.0.3"}, func(a *addressed, name string) {
			a.close("127.9.0.1", "127.9.0.2", "127.9.0.3")
			time.AfterFunc(300*time.Millisecond, func() {
				a.open(false, "127.9.0.4", "127.9.0.5", "127.9.0.6")
				dns.set(name, "127.9.0.4", "127.9.0.5", "127.9.0.6")
			})
		}},
		{"the first drops packets", []string{"127.9.0.8", "127.9.0.1"}, func(a *addressed, name string) { a.cut("127.9.0.1") }},
		{"two drop packets", []string{"127.9.0.8", "127.9.0.9", "127.9.0.1"}, func(a *addressed, name string) { a.cut("127.9.0.1") }},
		{"the first accepts, and is silent", []string{"127.9.0.1"}, func(a *addressed, name string) {
			a.open(true, "127.9.0.9")
			dns.set(name, "127.9.0.9", "127.9.0.1")
			a.cut("127.9.0.1")
		}},
		{"names are not resolved for a while", []string{"127.9.0.1"}, func(a *addressed, name string) {
			dns.set(name, "")
			a.cut("127.9.0.1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, name := newAddressed(t), fmt.Sprintf("zk%d.test", i)
			for _, ip := range c.before {
				if ip == "127.9.0.8" || ip == "127.9.0.9" {
					a.drop(ip)
				} else {
					a.open(false, ip)
				}
			}
			dns.set(name, c.before...)
			b := must.Get(zookeeper.New(zookeeper.Config{
				Servers: []string{fmt.Sprintf("%s:%d", name, a.port)}, SessionTimeout: 20 * time.Second, ConnectTimeout: 1500 * time.Millisecond,
			}))(t)
			a.moved(opened(t, b), func() { c.then(a, name) })
		})
	}
}

// An address that takes longer than its share of the time to accept is used nevertheless.
func TestAddressThatAcceptsLate(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 8 { // the order is random
		a, name := newAddressed(t), fmt.Sprintf("late%d.test", i)
		a.drop("127.9.4.1")
		a.drop("127.9.4.2")
		accept := a.drop("127.9.4.3")
		dns.set(name, "127.9.4.1", "127.9.4.2", "127.9.4.3")
		server := fmt.Sprintf("%s:%d", name, a.port)
		b := must.Get(zookeeper.New(zookeeper.Config{Servers: []string{server}, ConnectTimeout: 20 * time.Second}))(t)
		all.Go(func() {
			// A third of the timeout passes; the system asks again 1, 3, 7 and 15 s after it has asked first.
			defer time.AfterFunc(8*time.Second, accept).Stop()
			conn, err := b.Dial(t.Context(), server)
			if assert.NoError(t, err) {
				assert.NoError(t, conn.Close())
			}
		})
	}
	all.Wait()
}

// A session that must leave its server while DNS is away knows the addresses of the others, which it has not tried
// before. A name that does not exist costs it nothing.
func TestNamesOfOtherServers(t *testing.T) {
	t.Parallel()
	a := newAddressed(t)
	var servers []string
	for i := range 3 {
		name := fmt.Sprintf("other%d.test", i)
		servers = append(servers, fmt.Sprintf("%s:%d", name, a.port))
		dns.set(name, fmt.Sprintf("127.9.3.%d", i))
	}
	servers = append(servers, fmt.Sprintf("missing.test:%d", a.port))
	a.open(false, "127.9.3.0")
	b := must.Get(zookeeper.New(zookeeper.Config{Servers: servers, SessionTimeout: 20 * time.Second, ConnectTimeout: 2 * time.Second}))(t)
	s := opened(t, b)
	wait.For(t, "all names are looked up", func() bool { return dns.wasAsked("missing.test") && dns.wasAsked("other2.test") })
	for i := range 3 {
		dns.set(fmt.Sprintf("other%d.test", i), "")
	}
	a.open(false, "127.9.3.2")
	a.moved(s, func() { a.close("127.9.3.0") })
}

// An IPv6 address may have a zone.
func TestAddressWithAZone(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("SKIPPED: no IPv6: %v", err)
	}
	require.NoError(t, l.Close())
	a := newAddressed(t)
	a.open(false, "[::1]")
	b := must.Get(zookeeper.New(zookeeper.Config{Servers: []string{fmt.Sprintf("[::1%%lo]:%d", a.port)}, SessionTimeout: 30 * time.Second}))(t)
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	assert.NoError(t, s.Close(t.Context()))
}
