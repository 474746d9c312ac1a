//go:build unix

package proxytest

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// through returns a client connected through a new proxy, and one that is
// connected directly, on a server shared by this package's tests.
func through(t *testing.T) (p *Proxy, proxied, direct *zk.Conn) {
	t.Helper()
	z := servertest.SharedZooKeeper(t)
	p = ForTest(t, z.Addr())
	return p, connect(t, p.Addr()), connect(t, z.Addr())
}

// node returns a path that belongs to the test alone. Tests may run more than
// once against the same server.
func node(t *testing.T) string {
	return "/" + strings.ReplaceAll(t.Name(), "/", "-") + time.Now().Format("-150405.000000000")
}

func within[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(wait.Patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

func TestDropReplyLosesTheReplyOnly(t *testing.T) {
	p, proxied, direct := through(t)
	path := node(t)
	lost := p.DropReply(MatchPath(OpCreate, path), 1)
	_, err := proxied.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrConnectionClosed) {
		t.Fatalf("create: %v", err)
	}
	req := within(t, "the report", lost)
	if req.Opcode != OpCreate || req.Err != 0 || req.Zxid == 0 || RequestPath(req.Opcode, req.Payload) != path {
		t.Fatalf("report %+v", req)
	}
	if _, open := <-lost; open {
		t.Fatal("the channel is still open")
	}
	if !exists(t, direct, path) {
		t.Fatal("the server did not act")
	}
	// The same session comes back, and the rule is spent.
	if !exists(t, proxied, path) {
		t.Fatal("the client sees something else")
	}
	require.NoError(t, proxied.Delete(path, -1))
}

func TestDropRequestLosesTheRequest(t *testing.T) {
	p, proxied, direct := through(t)
	path := node(t)
	lost := p.DropRequest(MatchPath(OpMulti, path), 2)
	op := &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
	for range 2 {
		wait.For(t, "connected", func() bool { return proxied.State() == zk.StateHasSession })
		if _, err := proxied.Multi(op); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Fatalf("multi: %v", err)
		}
		if req := within(t, "the report", lost); req.Opcode != OpMulti || req.Zxid != 0 {
			t.Fatalf("report %+v", req)
		}
		if exists(t, direct, path) {
			t.Fatal("the server acted")
		}
	}
	wait.For(t, "connected", func() bool { return proxied.State() == zk.StateHasSession })
	_, err := proxied.Multi(op)
	require.NoError(t, err)
	if !exists(t, direct, path) {
		t.Fatal("the rule outlived its count")
	}
}

func TestDropReplyToConnect(t *testing.T) {
	z := servertest.SharedZooKeeper(t)
	p := ForTest(t, z.Addr())
	lost := p.DropReply(MatchOp(OpConnect), 1)
	conn := connect(t, p.Addr())
	within(t, "the report", lost)
	if exists(t, conn, node(t)) || p.Accepted() < 2 {
		t.Fatal("connected at the first attempt")
	}
}

func TestDropReplyDoesNotCountARequestWhoseLinkEnded(t *testing.T) {
	z := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128})
	p := ForTest(t, z.Addr())
	conn := connect(t, p.Addr())
	lost := p.DropReply(MatchOp(OpExists), 1)
	require.NoError(t, z.Pause())
	failed := make(chan error, 1)
	go func() {
		_, _, err := conn.Exists("/")
		failed <- err
	}()
	wait.For(t, "the request waits for its reply", func() bool {
		links := p.Links()
		if len(links) == 0 {
			return false
		}
		s := &links[0].session
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.pending) == 1
	})
	p.Cut()
	if within(t, "the request fails", failed) == nil {
		t.Fatal("exists succeeded on a cut link")
	}
	select {
	case req := <-lost:
		t.Fatalf("reported %+v", req)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, z.Resume())
	wait.For(t, "connected", func() bool { return conn.State() == zk.StateHasSession })
	if _, _, err := conn.Exists("/"); err == nil {
		t.Fatal("the drop was spent")
	}
	within(t, "the report", lost)
}

func TestHoldReply(t *testing.T) {
	p, proxied, direct := through(t)
	path := node(t)
	held, release := p.HoldReply(MatchOp(OpCreate))
	created := make(chan error, 1)
	go func() {
		_, err := proxied.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		created <- err
	}()
	if req := within(t, "the report", held); req.Err != 0 || req.Zxid == 0 {
		t.Fatalf("report %+v", req)
	}
	if !exists(t, direct, path) {
		t.Fatal("the server did not act")
	}
	select {
	case err := <-created:
		t.Fatalf("the reply came through: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	release()
	require.NoError(t, within(t, "the reply", created))
	if p.Accepted() != 1 {
		t.Fatal("the link was lost")
	}
}

func TestOnRequestMayActOnTheProxy(t *testing.T) {
	p, proxied, direct := through(t)
	var gets, sets atomic.Int32
	path := node(t)
	stop := p.OnRequest(func(opcode int32, payload []byte) {
		switch opcode {
		case OpGetData:
			gets.Add(1)
		case OpSetData:
			sets.Add(1)
			p.Cut()
		}
	})
	for range 3 {
		_, _, err := proxied.Get("/zookeeper")
		require.NoError(t, err)
	}
	if n := gets.Load(); n != 3 {
		t.Fatalf("saw %d gets", n)
	}
	create(t, proxied, path, 0)
	if _, err := proxied.Set(path, []byte("y"), -1); err == nil {
		t.Fatal("set succeeded on a cut link")
	}
	if data, _, err := direct.Get(path); err != nil || string(data) != "x" || sets.Load() != 1 {
		t.Fatalf("data %q, %v, saw %d sets", data, err, sets.Load())
	}
	stop()
	if !exists(t, proxied, path) {
		t.Fatal("gone")
	}
	_, _, err := proxied.Get(path)
	require.NoError(t, err)
	if gets.Load() != 3 {
		t.Fatal("still observing after stop")
	}
}

func TestClearRules(t *testing.T) {
	p, proxied, _ := through(t)
	lost := p.DropRequest(nil, 3)
	held, _ := p.HoldReply(nil)
	p.ClearRules()
	if exists(t, proxied, node(t)) {
		t.Fatal("exists")
	}
	select {
	case req := <-lost:
		t.Fatalf("dropped %+v", req)
	case req := <-held:
		t.Fatalf("held %+v", req)
	default:
	}
}

func TestWatchEventsAndLargeDataPass(t *testing.T) {
	p, proxied, direct := through(t)
	path := node(t)
	// The frame code runs with a rule that never matches.
	p.OnRequest(func(int32, []byte) {})
	_, _, events, err := proxied.ExistsW(path)
	require.NoError(t, err)
	large := []byte(strings.Repeat("0123456789", 90_000))
	_, err = proxied.Create(path, large, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	if e := within(t, "the event", events); e.Type != zk.EventNodeCreated {
		t.Fatalf("event %+v", e)
	}
	for _, conn := range []*zk.Conn{proxied, direct} {
		data, _, err := conn.Get(path)
		require.NoError(t, err)
		if string(data) != string(large) {
			t.Fatalf("%d bytes came back, or others", len(data))
		}
	}
}
