package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

var (
	aPassword = []byte("0123456789abcdef")
	aWill     = backend.Will{Service: "zookeeper", Session: formatSession(0x1234), TTL: time.Minute, Secret: secretOf(formatSession(0x1234), aPassword)}
)

// fakeServer calls serve for each connection, and returns a Backend that knows no other server.
func fakeServer(t *testing.T, serve func(net.Conn)) *Backend {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	return must.Get(New(Config{Servers: []string{listener.Addr().String()}}))(t)
}

// A deposed server that does not know it yet does not know the session either. It is asked again with a
// transaction that only others have.
func TestWillIsNotOverBecauseAServerDoesNotKnow(t *testing.T) {
	const quorums = 0x500000001
	var asked []int64 // for the session: with which zxid
	var closed bool
	b := fakeServer(t, func(conn net.Conn) {
		connect := wiretest.ReadFrame(conn)
		seen, id := int64(binary.BigEndian.Uint64(connect[4:])), int64(binary.BigEndian.Uint64(connect[16:]))
		known := id
		if id == 0 {
			known = 0x9999
		} else {
			assert.Equal(t, aPassword, connect[28:])
			if asked = append(asked, seen); seen < quorums {
				known = 0
			}
		}
		_, _ = conn.Write(wiretest.ConnectResponse(known, 3000))
		for request := wiretest.ReadFrame(conn); request != nil; request = wiretest.ReadFrame(conn) {
			xid, op := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
			assert.Contains(t, []int32{wire.OpMulti, wire.OpClose}, op)
			closed = closed || op == wire.OpClose && known == id
			_, _ = conn.Write(wiretest.Frame(xid, int64(quorums), int32(0)))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	require.NoError(t, b.Execute(ctx, aWill))
	assert.True(t, closed)
	assert.Equal(t, []int64{0, quorums}, asked)
}

// Bytes that are no server's reply end nothing and crash nothing: the next attempt follows.
func TestWillAtAnythingElse(t *testing.T) {
	right := wiretest.ConnectResponse(0x1234, 3000)
	for name, says := range map[string][]byte{
		"nothing":            nil,
		"half a length":      {0, 0},
		"no bytes":           {0, 0, 0, 0},
		"less than nothing":  {0xff, 0xff, 0xff, 0xff},
		"a page":             []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"too much":           wiretest.Frame(bytes.Repeat([]byte{1}, 1<<20)),
		"half a greeting":    right[:10],
		"no timeout":         wiretest.ConnectResponse(0x1234, 0),
		"a negative timeout": wiretest.ConnectResponse(0x1234, -1),
		"another answer":     slices.Concat(right, wiretest.AnswerTo(7, 0)),
		"half an answer":     slices.Concat(right, wiretest.AnswerTo(1, 0)[:9]),
		"a short answer":     slices.Concat(right, wiretest.Frame(int32(1))),
		"a passing error":    slices.Concat(right, wiretest.AnswerTo(1, -127)),
		"an unheard-of one":  slices.Concat(right, wiretest.AnswerTo(1, 77)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := make(chan struct{}, 100)
			b := fakeServer(t, func(conn net.Conn) {
				tries <- struct{}{}
				_ = wiretest.ReadFrame(conn)
				_, _ = conn.Write(says)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- b.Execute(ctx, aWill) }()
			<-tries
			<-tries
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
		})
	}
}

// Some services that speak ZooKeeper's protocol have no sessions that continue on another link.
func TestWillWhereSessionsDoNotGoOn(t *testing.T) {
	b := fakeServer(t, func(conn net.Conn) {
		_ = wiretest.ReadFrame(conn)
		_, _ = conn.Write(wiretest.ConnectResponse(0x4321, 3000))
	})
	require.ErrorIs(t, b.Execute(t.Context(), aWill), errors.ErrUnsupported)
}
