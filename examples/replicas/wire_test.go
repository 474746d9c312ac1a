package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

// served is a node that answers, and stands in no election.
func served(t testing.TB) (*node, string) {
	j, err := openJournal(t.TempDir())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	all := nodes{addrs: map[string]string{"n1": listener.Addr().String()}, voters: []string{"n1"}}
	n := newNode("n1", all, "/e", time.Second, j, func(string, ...any) {})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.serve(ctx, listener) }()
	t.Cleanup(func() { stop(); <-done; require.NoError(t, j.close()) })
	return n, listener.Addr().String()
}

// A line without an end takes no more than a line may, and ends the connection. Others are served.
func TestLineTooLong(t *testing.T) {
	_, addr := served(t)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	sent := 0
	for err == nil {
		var n int
		n, err = conn.Write(chunk)
		sent += n
		require.Less(t, sent, 64<<20, "the node hangs up")
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.Less(t, memory.HeapInuse, uint64(64<<20))

	_, err = readLog(t.Context(), addr)
	require.NoError(t, err)
}

// A record of the largest size passes, whatever is in it, and a larger one does not.
func TestRecordSizes(t *testing.T) {
	_, addr := served(t)
	l, err := connect(t.Context(), addr)
	require.NoError(t, err)
	defer l.conn.Close()
	worst := strings.Repeat("\x00", maxRecord)
	var records []record
	for range 2 {
		records = append(records, record{1, worst})
	}
	for i, r := range records {
		prev := position{Index: i}
		if i > 0 {
			prev.Token = 1
		}
		a, err := l.ask(t.Context(), request{Kind: put, Token: 1, Prev: prev, Records: []record{r}})
		require.NoError(t, err)
		require.Equal(t, answer{At: position{1, i + 1}}, a)
	}
	all, err := readLog(t.Context(), addr)
	require.NoError(t, err)
	require.Equal(t, records, all)

	for _, bad := range []record{{1, worst + "x"}, {0, "x"}, {2, "x"}} {
		a, err := l.ask(t.Context(), request{Kind: put, Token: 1, Prev: position{1, 2}, Records: []record{bad}})
		require.NoError(t, err)
		require.NotEmpty(t, a.Error)
	}
	_, err = newClient(nodes{addrs: map[string]string{"n1": addr}, voters: []string{"n1"}}).append(t.Context(), worst+"x")
	require.ErrorContains(t, err, "at most")
}

// More connections than a node serves are closed, and room is made when some go.
func TestManyConnections(t *testing.T) {
	_, addr := served(t)
	var all []net.Conn
	for range maxConns + 20 {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		all = append(all, conn)
	}
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { _, err := readLog(t.Context(), addr); return err == nil }, wait.Patience, 10*time.Millisecond)
}

// FuzzRequests sends what no node and no client would.
func FuzzRequests(f *testing.F) {
	n, addr := served(f)
	for _, line := range []string{
		"", "\n\n", "{", "null", "[]", `"x"`, `{"kind":"claim","token":-1}`, `{"kind":"claim","token":1e30}`,
		`{"kind":"put","token":3,"prev":{"token":0,"index":-9223372036854775808},"records":[{"token":3,"data":"x"}]}`,
		`{"kind":"put","token":3,"prev":{"token":3,"index":9223372036854775807},"records":[{"token":3,"data":"x"}]}`,
		`{"kind":"put","token":3,"records":[null,null]}`, `{"kind":"read","after":-5}`, `{"kind":"read","after":9223372036854775807}`,
		`{"kind":"write","data":"` + "\xff" + `"}`, `{"kind":"claim","token":18446744073709551615,"from":"n1"}`,
		"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", strings.Repeat("[", 20000),
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = conn.Write(append(text, '\n')) // it may hang up at any byte
		_, _ = fmt.Fprintln(conn, `{"kind":"none"}`)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = new(bytes.Buffer).ReadFrom(conn)
		_, records, _ := n.journal.read(0)
		for _, r := range records {
			require.NoError(t, checkData(r.Data))
		}
		_, err = readLog(t.Context(), addr)
		require.NoError(t, err)
	})
}
