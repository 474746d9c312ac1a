//go:build unix

package proxytest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// fake is a server for the part of ZooKeeper's protocol that rules see: it answers each request, in order.
type fake struct {
	mu    sync.Mutex
	acted []int32 // opcodes
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	for first := true; ; first = false {
		request, err := readFrame(conn)
		if err != nil {
			return
		}
		if first {
			_ = writeFrame(conn, make([]byte, 36)) // fails if the client has gone
			continue
		}
		f.mu.Lock()
		f.acted = append(f.acted, int32(binary.BigEndian.Uint32(request[4:])))
		reply := binary.BigEndian.AppendUint64(bytes.Clone(request[:4]), uint64(len(f.acted)))
		f.mu.Unlock()
		reply = binary.BigEndian.AppendUint32(reply, 0)
		_ = writeFrame(conn, append(reply, request[8:]...))
	}
}

func (f *fake) did() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.acted)
}

func readFrame(conn net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

func writeFrame(conn net.Conn, frame []byte) error {
	_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// through returns a proxy to a new fake.
func through(t *testing.T) (*Proxy, *fake) {
	t.Helper()
	f := new(fake)
	return ZooKeeperForTest(t, server(t, f.serve)), f
}

// client is a connection after its connect frame.
type client struct {
	t *testing.T
	net.Conn
	xid uint32
}

func connect(t *testing.T, p *Proxy) *client {
	t.Helper()
	c := &client{t: t, Conn: dial(t, p)}
	require.NoError(t, writeFrame(c, make([]byte, 44)))
	must.Get(readFrame(c))(t)
	return c
}

// send sends a request in two parts.
func (c *client) send(opcode int32, payload string) {
	c.t.Helper()
	c.xid++
	frame := binary.BigEndian.AppendUint32(nil, uint32(8+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, c.xid)
	must.Get(c.Write(frame))(c.t)
	must.Get(c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(opcode)), payload...)))(c.t)
}

// reply reads the reply to the latest request.
func (c *client) reply() (body string, code int32, err error) {
	c.t.Helper()
	frame, err := readFrame(c)
	if err != nil {
		return "", 0, err
	}
	require.Equal(c.t, c.xid, binary.BigEndian.Uint32(frame), "the request that it is a reply to")
	return string(frame[16:]), int32(binary.BigEndian.Uint32(frame[12:])), nil
}

// ask sends a request and checks that the whole reply comes.
func (c *client) ask(opcode int32, payload string) {
	c.t.Helper()
	c.send(opcode, payload)
	body, code, err := c.reply()
	require.NoError(c.t, err)
	require.True(c.t, body == payload && code == 0, "%d: %d bytes, or others, code %d", opcode, len(body), code)
}

// isOver checks that the link is closed without a reply.
func (c *client) isOver() {
	c.t.Helper()
	_, _, err := c.reply()
	require.ErrorIs(c.t, err, io.EOF)
}

func (f *fake) must(t *testing.T, did ...int32) {
	t.Helper()
	require.Equal(t, did, f.did(), "what the server did")
}

func TestFramesPass(t *testing.T) {
	p, f := through(t)
	c := connect(t, p)
	c.ask(OpCreate, strings.Repeat("0123456789", 90_000))
	c.ask(OpGetData, "")
	f.must(t, OpCreate, OpGetData)
}

func TestDropReplyLosesTheReplyOnly(t *testing.T) {
	p, f := through(t)
	lost := p.DropReply(MatchOp(OpCreate), 1)
	c := connect(t, p)
	c.ask(OpExists, "x")
	c.send(OpCreate, "x")
	c.isOver()
	if req := wait.Receive(t, "a report", lost); req.Opcode != OpCreate || string(req.Payload) != "x" || req.Zxid != 2 || req.Err != 0 {
		t.Fatalf("report %+v", req)
	}
	connect(t, p).ask(OpCreate, "y") // the rule is spent
	f.must(t, OpExists, OpCreate, OpCreate)
}

func TestDropRequestLosesTheRequest(t *testing.T) {
	p, f := through(t)
	lost := p.DropRequest(MatchOp(OpConnect), 1)
	require.NoError(t, writeFrame(dial(t, p), make([]byte, 44)))
	wait.Receive(t, "a report", lost)
	lost = p.DropRequest(MatchOp(OpMulti), 2)
	for range 2 {
		c := connect(t, p)
		c.send(OpMulti, "x")
		c.isOver()
		if req := wait.Receive(t, "a report", lost); req.Opcode != OpMulti || req.Zxid != 0 {
			t.Fatalf("report %+v", req)
		}
	}
	connect(t, p).ask(OpMulti, "y") // the rule is spent
	f.must(t, OpMulti)
}

// The server has acted on a request whose reply is refused, and not on one that is turned away.
func TestRefuseReplyAndTurnAway(t *testing.T) {
	const noAuth = -102
	p, f := through(t)
	c := connect(t, p)
	refused := p.RefuseReply(MatchOp(OpCreate), noAuth, 1)
	release := p.TurnAway(MatchOp(OpDelete), noAuth)
	for _, opcode := range []int32{OpCreate, OpDelete} {
		c.send(opcode, "x")
		if body, code, err := c.reply(); body != "" || code != noAuth || err != nil {
			t.Fatalf("%q, code %d, %v", body, code, err)
		}
	}
	wait.Receive(t, "a report", refused)
	require.Equal(t, 1, release(), "requests that were turned away")
	c.ask(OpCreate, "y")
	c.ask(OpDelete, "y")
	f.must(t, OpCreate, OpExists, OpCreate, OpDelete)
}

func TestHoldReply(t *testing.T) {
	p, f := through(t)
	c := connect(t, p)
	held, release := p.HoldReply(MatchOp(OpCreate))
	c.send(OpCreate, "x")
	require.EqualValues(t, 1, wait.Receive(t, "a report", held).Zxid)
	f.must(t, OpCreate)
	silent(t, c)
	release()
	release()
	if body, _, err := c.reply(); body != "x" || err != nil {
		t.Fatalf("%q, %v", body, err)
	}
	c.ask(OpCreate, "y")
}

func TestOnRequestMayActOnTheProxy(t *testing.T) {
	p, f := through(t)
	seen := make(chan int32, 10)
	stop := p.OnRequest(func(opcode int32, payload []byte) {
		seen <- opcode
		if opcode == OpSetData {
			p.Cut()
		}
	})
	c := connect(t, p)
	c.ask(OpGetData, "x")
	c.send(OpSetData, "x")
	isReset(t, c)
	for _, want := range []int32{OpConnect, OpGetData, OpSetData} {
		require.Equal(t, want, wait.Receive(t, "a report", seen))
	}
	stop()
	lost := p.DropRequest(MatchOp(OpGetData), 1)
	p.ClearRules()
	connect(t, p).ask(OpGetData, "y")
	require.Zero(t, len(seen)+len(lost), "a rule goes on after its end")
	f.must(t, OpGetData, OpGetData)
}
