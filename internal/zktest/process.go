// Package zktest connects the conformance suites to real ZooKeeper servers: client processes whose
// links, requests and replies can be broken, and an operator.
package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/asynclog/asynclogtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

// A Process is one client process: a backend whose connections go through its own proxies, one per
// server.
type Process struct {
	Backend *zookeeper.Backend
	Servers []string // behind the proxies
	*servicetest.Links
	proxytest.Rules // of all proxies

	t testing.TB

	mu     sync.Mutex
	grants []backend.Will // of the sessions that the servers granted, newest last
}

// NewProcess makes a process whose sessions outlive a machine that stalls. change, if it is not nil,
// may alter its configuration.
func NewProcess(t testing.TB, servers []string, change func(*zookeeper.Config)) *Process {
	t.Helper()
	p := &Process{t: t, Servers: servers}
	p.Links = servicetest.NewLinks(t, servers, func(t testing.TB, server string) *proxytest.Proxy {
		return proxytest.ZooKeeperForTest(t, server, &p.Rules)
	})
	cfg := zookeeper.Config{Servers: p.Addrs(), SessionTimeout: 30 * time.Second, Dialer: p.dial, Logger: asynclogtest.Stuck(t)}
	if change != nil {
		change(&cfg)
	}
	p.Backend = must.Get(zookeeper.New(cfg))(t)
	return p
}

// dial notes which sessions are granted, as Expire needs their passwords.
func (p *Process) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &grantReader{Conn: conn, p: p}, nil
}

type grantReader struct {
	net.Conn
	p    *Process
	head []byte
	done bool
}

func (g *grantReader) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if !g.done {
		g.head = append(g.head, b[:n]...)
		if len(g.head) >= 4+4+4+8+4+16 {
			g.done = true
			g.p.granted(g.head)
		}
	}
	return n, err
}

// granted parses a connect response: its length, version, timeout, session and password.
func (p *Process) granted(response []byte) {
	id := fmt.Sprintf("%016x", binary.BigEndian.Uint64(response[12:]))
	password := bytes.Clone(response[24:40])
	w := backend.Will{
		Service: "zookeeper", Session: id,
		TTL:    time.Duration(binary.BigEndian.Uint32(response[8:])) * time.Millisecond,
		Secret: binary.BigEndian.AppendUint32(password, crc32.ChecksumIEEE([]byte(id+string(password)))),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != expired && !slices.ContainsFunc(p.grants, func(other backend.Will) bool { return other.Session == id }) {
		p.grants = append(p.grants, w)
	}
}

const expired = "0000000000000000" // in the response

func (p *Process) wills() []backend.Will {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.grants)
}

// Sessions returns how many sessions the servers granted to the process.
func (p *Process) Sessions() int { return len(p.wills()) }

// Expire makes the servers end all sessions of the process, and the process learn of it when it comes
// back. It gives up a frozen server after some seconds: others may do it.
func (p *Process) Expire() {
	p.t.Helper()
	p.Suspend()
	servers := slices.Compact(slices.Sorted(slices.Values(p.Servers)))
	by := must.Get(zookeeper.New(zookeeper.Config{Servers: servers, ConnectTimeout: 5 * time.Second}))(p.t)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	for _, w := range p.wills() {
		if err := backend.Execute(ctx, by, w); err != nil {
			p.t.Fatalf("end session %s: %v", w.Session, err)
		}
	}
	p.Resume()
}

// part is one operation of a multi, as far as the tests need it.
type part struct {
	op      int32
	path    string
	flags   int32
	version int32
}

// parts parses a request's payload: that of a multi, or of one operation by itself.
func parts(opcode int32, payload []byte) (all []part) {
	number := func() int32 {
		n := int32(binary.BigEndian.Uint32(payload))
		payload = payload[4:]
		return n
	}
	text := func() string {
		n := max(number(), 0)
		text := string(payload[:n])
		payload = payload[n:]
		return text
	}
	one := func(op int32) part {
		p := part{op: op, path: text()}
		switch p.op {
		case proxytest.OpCreate:
			text()
			for range number() { // of the ACL
				number()
				text()
				text()
			}
			p.flags = number()
		case proxytest.OpSetData:
			text()
			p.version = number()
		case proxytest.OpDelete, proxytest.OpCheck:
			p.version = number()
		}
		return p
	}
	switch opcode {
	case proxytest.OpMulti:
		for len(payload) >= 9 && payload[4] == 0 {
			op := number()
			payload = payload[5:]
			all = append(all, one(op))
		}
	case proxytest.OpCreate2:
		all = append(all, one(proxytest.OpCreate))
	case proxytest.OpSetData, proxytest.OpDelete:
		all = append(all, one(opcode))
	}
	return all
}

// MatchKind matches commits that have an op of the kind.
func MatchKind(kind backend.OpKind) proxytest.Match {
	return func(opcode int32, payload []byte) bool {
		return slices.ContainsFunc(parts(opcode, payload), func(p part) bool { return p.is(kind) })
	}
}

// is reports whether a part is the request for an op of a kind.
func (p part) is(kind backend.OpKind) bool {
	create, set, temp := p.op == proxytest.OpCreate, p.op == proxytest.OpSetData, strings.Contains(p.path, "/t-")
	switch kind {
	case backend.OpCreateEphemeral:
		return create && p.flags == zk.FlagEphemeral
	case backend.OpEnqueue:
		return create && p.flags == zk.FlagEphemeral|zk.FlagSequence
	case backend.OpCompareAndSet:
		return !temp && (create && p.flags == 0 || set && p.version >= 0)
	case backend.OpUpdate:
		return !temp && set
	case backend.OpDelete:
		return !temp && p.op == proxytest.OpDelete
	}
	return false
}

// MatchVote matches the heartbeats that a quorum must acknowledge: multis that check "/" only.
func MatchVote(opcode int32, payload []byte) bool {
	if opcode != proxytest.OpMulti {
		return false
	}
	all := parts(opcode, payload)
	return len(all) == 1 && all[0].op == proxytest.OpCheck && all[0].path == "/"
}

// LoseReply loses the reply to the next request that matches.
func (p *Process) LoseReply(match proxytest.Match) { p.DropReply(match, 1) }

// CutReply is LoseReply, and also keeps the process from coming back until Resume.
func (p *Process) CutReply(match proxytest.Match) {
	due, bar := p.UntilResume()
	p.DropReply(func(opcode int32, payload []byte) bool {
		if !due() || !match(opcode, payload) {
			return false
		}
		bar()
		return true
	}, 1)
}

// LoseRequest loses the next request that matches.
func (p *Process) LoseRequest(match proxytest.Match) { p.DropRequest(match, 1) }

// Throttle refuses all requests of the process, except those that servers always accept, until release
// is called. release returns how many there were.
func (p *Process) Throttle() (release func() int) {
	const throttledOp = -127
	return p.TurnAway(func(opcode int32, _ []byte) bool {
		return opcode != proxytest.OpPing && opcode != proxytest.OpConnect && opcode != proxytest.OpClose && opcode != proxytest.OpSASL
	}, throttledOp)
}

// Deny refuses all requests of the process that need rights until release is called. A sync needs none,
// and a vote whose check is denied is as good.
func (p *Process) Deny() (release func()) {
	const noAuth = -102
	end := p.TurnAway(func(opcode int32, payload []byte) bool {
		switch opcode {
		case proxytest.OpPing, proxytest.OpConnect, proxytest.OpClose, proxytest.OpSync, proxytest.OpSetWatches, proxytest.OpSASL:
			return false
		case proxytest.OpMulti:
			return !MatchVote(opcode, payload)
		}
		return true
	}, noAuth)
	return func() { end() }
}
