// Package wiretest has frames of ZooKeeper's protocol, and the other end of a connection, for tests.
package wiretest

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// Frame returns a frame of parts, which are bytes or numbers.
func Frame(parts ...any) []byte {
	b := make([]byte, 4)
	for _, p := range parts {
		b, _ = binary.Append(b, binary.BigEndian, p)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// ConnectRequest returns the request of a session, or of a new one if that is 0.
func ConnectRequest(session int64) []byte {
	return Frame(int32(0), int64(0), int32(4000), session, int32(16), make([]byte, 16))
}

// ConnectResponse returns the reply of a server of Apache ZooKeeper.
func ConnectResponse(session int64, timeout int32) []byte {
	return Frame(int32(0), timeout, session, int32(16), []byte("0123456789abcdef"), byte(0))
}

// AnswerTo returns a reply, at zxid 7.
func AnswerTo(xid, code int32, body ...byte) []byte { return Frame(xid, int64(7), code, body) }

// ReadFrame returns the next frame without its length, or nil at the end.
func ReadFrame(r io.Reader) []byte {
	var length uint32
	if binary.Read(r, binary.BigEndian, &length) != nil {
		return nil
	}
	frame := make([]byte, length)
	_, _ = io.ReadFull(r, frame) // the client is right
	return frame
}

// A Script is a connection with the test at its other end.
type Script struct {
	net.Conn // nil: only the methods below are called
	Wrote    []byte
	Reads    []byte
	Chunk    func() int // how much a Read returns; nil means all
	Closed   bool
}

func (s *Script) Write(p []byte) (int, error) { s.Wrote = append(s.Wrote, p...); return len(p), nil }
func (s *Script) Read(p []byte) (int, error) {
	if len(s.Reads) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(s.Reads))
	if s.Chunk != nil {
		n = min(n, max(1, s.Chunk()))
	}
	copy(p, s.Reads[:n])
	s.Reads = s.Reads[n:]
	return n, nil
}
func (s *Script) Close() error                     { s.Closed = true; return nil }
func (s *Script) SetReadDeadline(time.Time) error  { return nil }
func (s *Script) SetWriteDeadline(time.Time) error { return nil }

// Attach returns what attach makes of a Script.
func Attach[L net.Conn](t *testing.T, attach func(net.Conn, time.Duration) (L, error), reads []byte, chunk func() int) (L, *Script) {
	t.Helper()
	s := &Script{Reads: reads, Chunk: chunk}
	return must.Get(attach(s, time.Minute))(t), s
}

// Greeted is Attach for a link whose session, number 5, is granted, and which has read nothing else.
func Greeted[L net.Conn](t *testing.T, attach func(net.Conn, time.Duration) (L, error), reads []byte, chunk func() int) (L, *Script) {
	t.Helper()
	greeting := ConnectResponse(5, 4000)
	l, s := Attach(t, attach, slices.Concat(greeting, reads), chunk)
	Say(t, l, ConnectRequest(5)) // the first link of a session may ask for any
	must.Get(io.ReadFull(l, make([]byte, len(greeting))))(t)
	return l, s
}

// Say writes frames to a link.
func Say(t *testing.T, l net.Conn, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		require.Len(t, f, must.Get(l.Write(f))(t))
	}
}
