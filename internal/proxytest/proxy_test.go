//go:build unix

package proxytest

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// server listens and runs serve for each connection.
func server(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(conn) })
		}
	})
	// Cleanups run last in, first out: the proxy's cleanup, which is added later, ends the links.
	t.Cleanup(func() { require.NoError(t, l.Close()); wg.Wait() })
	return l.Addr().String()
}

// echoServer sends back what it receives, and then its tag, if any.
func echoServer(t *testing.T, tag string) string {
	t.Helper()
	return server(t, func(conn net.Conn) {
		defer conn.Close()
		_, _ = io.Copy(conn, conn)
		_, _ = io.WriteString(conn, tag)
	})
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("tcp", p.Addr()))(t)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait.Patience)))
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	must.Get(io.WriteString(conn, text))(t)
}

func receive(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	must.Get(io.ReadFull(conn, got))(t)
	require.Equal(t, want, string(got))
}

// silent checks that nothing arrives within 100 ms.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "received %d bytes", n)
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait.Patience)))
}

func isReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// refuses checks that a new connection is reset, perhaps already while it is made.
func refuses(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait.Patience)))
	isReset(t, conn)
}

func TestProxyPassesBytesAndHalfClose(t *testing.T) {
	p := ForTest(t, echoServer(t, "tail"))
	much := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	for _, text := range []string{"hello", "", much} {
		conn := dial(t, p)
		var sending sync.WaitGroup
		sending.Go(func() {
			_, _ = io.WriteString(conn, text)
			_ = conn.(*net.TCPConn).CloseWrite()
		})
		got, err := io.ReadAll(conn)
		sending.Wait()
		require.NoError(t, err)
		assert.True(t, string(got) == text+"tail", "received %d bytes for %d, or others", len(got), len(text))
	}
	wait.For(t, "links go", func() bool { return len(p.Links()) == 0 })
	assert.Equal(t, 3, p.Accepted())
}

func TestProxyCutAndRefuse(t *testing.T) {
	p := ForTest(t, echoServer(t, ""))
	a, b := dial(t, p), dial(t, p)
	for _, conn := range []net.Conn{a, b} {
		send(t, conn, "x")
		receive(t, conn, "x")
	}
	links := p.Links()
	require.Len(t, links, 2)
	links[0].Cut()
	isReset(t, a)
	send(t, b, "y")
	receive(t, b, "y")

	p.Refuse(true)
	refuses(t, p)
	send(t, b, "z")
	receive(t, b, "z")
	p.Cut()
	isReset(t, b)
	p.Refuse(false)
	c := dial(t, p)
	send(t, c, "again")
	receive(t, c, "again")
}

func TestProxyStall(t *testing.T) {
	p := ForTest(t, echoServer(t, ""))
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")
	p.Stall()
	late := dial(t, p) // accepted nevertheless
	send(t, conn, "b")
	send(t, late, "l")
	silent(t, conn)
	silent(t, late)
	p.Unstall()
	receive(t, conn, "b")
	receive(t, late, "l")

	p.StallToClient()
	send(t, conn, "c")
	silent(t, conn)
	p.Unstall()
	receive(t, conn, "c")

	p.Links()[0].Stall()
	send(t, conn, "d")
	silent(t, conn)
	send(t, late, "other links move")
	receive(t, late, "other links move")
	p.Cut() // works on a stalled link
	isReset(t, conn)
}

func TestProxyDelayKeepsOrder(t *testing.T) {
	p := ForTest(t, echoServer(t, ""))
	conn := dial(t, p)
	p.Delay(30*time.Millisecond, 30*time.Millisecond)
	begin := time.Now()
	for _, text := range []string{"a", "b", "c", "d"} {
		send(t, conn, text)
		time.Sleep(2 * time.Millisecond)
	}
	receive(t, conn, "abcd")
	require.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond, "there and back")
	p.Delay(0, 0)
	send(t, conn, "e")
	receive(t, conn, "e")

	p.DelayToClient(60 * time.Millisecond)
	begin = time.Now()
	send(t, conn, "f")
	receive(t, conn, "f")
	require.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond, "back")
}

func TestProxyOfADeadTarget(t *testing.T) {
	ports := must.Get(loopback.Ports(1))(t)
	defer loopback.Release(ports...)
	refuses(t, ForTest(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))))
}

func TestProxyCloseLeavesNoGoroutines(t *testing.T) {
	target := echoServer(t, "")
	before := runtime.NumGoroutine()
	p := must.Get(New(target))(t)
	conn, stalled := dial(t, p), dial(t, p)
	send(t, conn, "x")
	receive(t, conn, "x")
	p.Stall()
	send(t, stalled, "y")
	dial(t, p)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	isReset(t, conn)
	wait.For(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
