package zookeeper

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/driver"
)

// A script is a connection whose other end is the test.
type script struct {
	net.Conn // nil: only what is below is called
	wrote    []byte
	reads    []byte
	chunk    func() int // how much a Read gives
	closed   bool
}

func (s *script) Write(p []byte) (int, error) { s.wrote = append(s.wrote, p...); return len(p), nil }
func (s *script) Read(p []byte) (int, error) {
	if len(s.reads) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(s.reads), max(1, s.chunk()))
	copy(p, s.reads[:n])
	s.reads = s.reads[n:]
	return n, nil
}
func (s *script) Close() error                    { s.closed = true; return nil }
func (s *script) SetReadDeadline(time.Time) error { return nil }

type wireEvents struct {
	granted  []int64
	timeouts []time.Duration
	answered int
	epochs   []uint64 // of votes
	expired  int
	foreign  int
}

func newPin(e *wireEvents) *pin {
	return &pin{
		granted: func(id int64, timeout time.Duration, _ time.Time) error {
			e.granted = append(e.granted, id)
			e.timeouts = append(e.timeouts, timeout)
			return nil
		},
		answered: func(time.Time) { e.answered++ },
		voted:    func(_ time.Time, epoch uint64) { e.epochs = append(e.epochs, epoch) },
		expired:  func() { e.expired++ },
		foreign:  func() { e.foreign++ },
		acked:    make(chan struct{}),
	}
}

func frame(parts ...any) []byte {
	b := make([]byte, 4)
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			b = append(b, p...)
		default:
			b, _ = binary.Append(b, binary.BigEndian, p)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func connectRequest(session int64) []byte {
	return frame(int32(0), int64(0), int32(4000), session, int32(16), make([]byte, 16))
}

func connectResponse(session int64, timeout int32) []byte {
	return frame(int32(0), timeout, session, int32(16), []byte("0123456789abcdef"), byte(0))
}

// keeperResponse is one of a server that makes no passwords.
func keeperResponse(session int64) []byte {
	return frame(int32(0), int32(4000), session, int32(16), make([]byte, 16))
}

func answerTo(xid, code int32, body ...byte) []byte { return frame(xid, int64(7), code, body) }

// longMulti is the body of an answer to a multi that takes more than a look ahead: two
// creations and the end.
func longMulti() []byte {
	created := join([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0}, frame(make([]byte, 1800)))
	return join(created, created, []byte{0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff})
}

func join(frames ...[]byte) []byte {
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}

func startLink(t *testing.T, p *pin, reads []byte, chunk func() int) (*link, *script) {
	t.Helper()
	s := &script{reads: reads, chunk: chunk}
	l, err := p.attach(s, time.Minute)
	require.NoError(t, err)
	return l, s
}

func whole() int { return 1 << 20 }

// noZxid is an answer as it is handed on: see link.keepZxid.
func noZxid(answer []byte) []byte {
	clear(answer[8:16])
	return answer
}

// The streams are seen through whatever pieces they come in, and are not changed but
// for the zxid of answers.
func TestWireInPieces(t *testing.T) {
	for round := range 200 {
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		piece := func() int { return 1 + rng.IntN(40) }
		fromServer := join(connectResponse(5, 4000), answerTo(-2, 0), answerTo(1, 0, make([]byte, 100)...),
			answerTo(-1, 0, make([]byte, 30)...), answerTo(2, -101), answerTo(3, 0, longMulti()...), answerTo(-2, 0))
		handedOn := join(connectResponse(5, 4000), answerTo(-2, 0), noZxid(answerTo(1, 0, make([]byte, 100)...)),
			answerTo(-1, 0, make([]byte, 30)...), noZxid(answerTo(2, -101)), noZxid(answerTo(3, 0, longMulti()...)), answerTo(-2, 0))
		var e wireEvents
		l, s := startLink(t, newPin(&e), fromServer, piece)
		fromClient := join(connectRequest(0), frame(int32(-2), int32(11)), frame(int32(1), int32(4), make([]byte, 50)),
			frame(int32(2), int32(6)), frame(int32(3), int32(14)), frame(int32(-2), int32(11)))
		for rest := fromClient; len(rest) > 0; {
			n := min(piece(), len(rest))
			got, err := l.Write(rest[:n])
			require.NoError(t, err)
			require.Equal(t, n, got)
			rest = rest[n:]
		}
		assert.Equal(t, fromClient, s.wrote)
		var got []byte
		for {
			buf := make([]byte, piece())
			n, err := l.Read(buf)
			got = append(got, buf[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
		assert.Equal(t, handedOn, got)
		assert.Equal(t, []int64{5}, e.granted)
		assert.Equal(t, []time.Duration{4 * time.Second}, e.timeouts)
		assert.Equal(t, 5, e.answered)
		assert.Zero(t, e.expired)
		assert.Empty(t, l.outstanding[l.first:])
	}
}

// Pitfall 2, at the wire: once a session was granted, a request for another one
// does not get out.
func TestPitfall02WireRefusesNewSession(t *testing.T) {
	var e wireEvents
	p := newPin(&e)
	l, _ := startLink(t, p, connectResponse(5, 4000), whole)
	_, err := l.Write(connectRequest(0))
	require.NoError(t, err)
	_, err = l.Read(make([]byte, 100))
	require.NoError(t, err)

	again, s := startLink(t, p, connectResponse(5, 4000), whole)
	_, err = again.Write(connectRequest(5))
	require.NoError(t, err)
	assert.NotEmpty(t, s.wrote)

	for _, other := range []int64{0, 6} {
		e.expired = 0
		renewed, s := startLink(t, p, nil, whole)
		_, err = renewed.Write(connectRequest(other))
		require.ErrorIs(t, err, errUnpinned)
		assert.Empty(t, s.wrote, "not a byte may leave")
		assert.Equal(t, 1, e.expired)
	}

	// A server that hands out another session is not believed either.
	e.expired = 0
	foreign, _ := startLink(t, p, connectResponse(9, 4000), whole)
	_, err = foreign.Write(connectRequest(5))
	require.NoError(t, err)
	_, err = foreign.Read(make([]byte, 100))
	require.ErrorIs(t, err, errUnpinned)
	assert.Equal(t, 1, e.expired)

	// Expired: told before the client library knows.
	e.expired = 0
	expired, _ := startLink(t, p, connectResponse(0, 0), whole)
	_, err = expired.Write(connectRequest(5))
	require.NoError(t, err)
	_, err = expired.Read(make([]byte, 100))
	require.NoError(t, err)
	assert.Equal(t, 1, e.expired)

	p.kill(driver.ErrClosed)
	_, err = p.attach(&script{}, time.Second)
	require.ErrorIs(t, err, driver.ErrClosed)
}

// What a server says neither crashes the process nor makes it allocate at will.
func TestWireHostile(t *testing.T) {
	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	negative := []byte{0xff, 0xff, 0xff, 0xff}
	connected := connectResponse(5, 4000)
	children := frame(int32(1), int32(12))
	for name, try := range map[string]struct {
		request, reads []byte
	}{
		"huge handshake":       {nil, huge},
		"short handshake":      {nil, frame(int32(0), int32(4000))},
		"no timeout":           {nil, connectResponse(5, 0)},
		"negative timeout":     {nil, connectResponse(5, -1)},
		"negative length":      {nil, join(connected, negative)},
		"short frame":          {nil, join(connected, frame(int32(1), int64(1)))},
		"empty frame":          {nil, join(connected, frame())},
		"answer to nothing":    {nil, join(connected, answerTo(77, 0))},
		"answer skipped":       {join(frame(int32(1), int32(6)), frame(int32(2), int32(6))), join(connected, answerTo(2, 0))},
		"too many children":    {children, join(connected, answerTo(1, 0, 0xff, 0xff, 0xff, 0xff))},
		"negative children":    {children, join(connected, answerTo(1, 0, 0xff, 0xff, 0xff, 0xff))},
		"list cut off":         {children, join(connected, answerTo(1, 0, 0, 0))},
		"huge value":           {frame(int32(1), int32(4)), join(connected, answerTo(1, 0, join(huge, make([]byte, 100))...))},
		"value cut off":        {frame(int32(1), int32(4)), join(connected, answerTo(1, 0, make([]byte, 71)...))},
		"stat cut off":         {frame(int32(1), int32(3)), join(connected, answerTo(1, 0, make([]byte, 67)...))},
		"created path cut off": {frame(int32(1), int32(1)), join(connected, answerTo(1, 0, 0, 0, 0, 5, '/'))},
		"multi without end":    {frame(int32(1), int32(14)), join(connected, answerTo(1, 0, 0, 0, 0, 5))},
		"long multi cut off":   {frame(int32(1), int32(14)), join(connected, answerTo(1, 0, longMulti()[:3000]...))},
		"huge multi":           {frame(int32(1), int32(14)), join(connected, frame(int32(1), int64(7), int32(0), make([]byte, maxMulti)))},
		"very long multi cut":  {frame(int32(1), int32(14)), join(connected, answerTo(1, 0, join(longMulti()[:3626], longMulti()[:7246-3626])...))},
		"multi of a long path": {frame(int32(1), int32(14)), join(connected, answerTo(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff))},
	} {
		t.Run(name, func(t *testing.T) {
			var e wireEvents
			l, _ := startLink(t, newPin(&e), try.reads, whole)
			_, err := l.Write(join(connectRequest(0), try.request))
			require.NoError(t, err)
			for err == nil {
				_, err = l.Read(make([]byte, 4096))
			}
			require.ErrorIs(t, err, errProtocol)
		})
	}
}

// An answer to a request for authentication says nothing about the session's
// life, and may overtake others.
func TestWireAuthIsNoHeartbeat(t *testing.T) {
	var e wireEvents
	l, _ := startLink(t, newPin(&e), join(connectResponse(5, 4000), answerTo(2, 0), answerTo(1, 0)), whole)
	_, err := l.Write(join(connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(opAuth))))
	require.NoError(t, err)
	var counts []int
	for err == nil {
		_, err = l.Read(make([]byte, 4096))
		counts = append(counts, e.answered)
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, []int{0, 0, 1, 1}, counts)
}

// A write that is answered without an error is a vote, at the epoch of the answer; one
// that was refused before it was proposed, and a read, are none.
func TestWireVotes(t *testing.T) {
	var e wireEvents
	reads := join(connectResponse(5, 4000), answerTo(1, 0), answerTo(2, -127), answerTo(3, 0, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff), answerTo(4, 0))
	l, _ := startLink(t, newPin(&e), reads, whole)
	before := time.Now()
	_, err := l.Write(join(connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(opMulti)), frame(int32(3), int32(opMulti)), frame(int32(4), int32(6))))
	require.NoError(t, err)
	var votes []int
	for err == nil {
		_, err = l.Read(make([]byte, 4096))
		votes = append(votes, len(e.epochs))
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, []int{0, 0, 0, 1, 1, 1}, votes)
	voted, epoch := l.newest()
	assert.False(t, voted.Before(before))
	assert.Equal(t, e.epochs[0], epoch)
}

// FuzzWire holds that answers of any bytes, in whatever pieces, do not crash the process, and that no
// more answers are counted than requests were sent.
func FuzzWire(f *testing.F) {
	f.Add(join(connectResponse(5, 4000), answerTo(1, 0), answerTo(-2, 0), answerTo(3, 0, 0, 0, 0, 5, 0)), uint8(3))
	f.Fuzz(func(t *testing.T, reads []byte, chunk uint8) {
		var e wireEvents
		l, _ := startLink(t, newPin(&e), reads, func() int { return int(chunk) })
		_, err := l.Write(join(connectRequest(0), frame(int32(1), int32(6)), frame(int32(-2), int32(11)), frame(int32(3), int32(14))))
		require.NoError(t, err)
		for err == nil {
			_, err = l.Read(make([]byte, 64))
		}
		if e.answered > 3 {
			t.Fatalf("%d answers to three requests", e.answered)
		}
	})
}

// An answer that is too long is handed on as an error, and the next one as it is, in whatever
// pieces they come.
func TestWireTooLong(t *testing.T) {
	for chunk := range 60 {
		var e wireEvents
		p := newPin(&e)
		p.buffers.maxAnswer = 100
		long, short := answerTo(1, 0, make([]byte, 1000)...), answerTo(2, 0, []byte("body")...)
		l, _ := startLink(t, p, join(connectResponse(5, 4000), long, short), func() int { return chunk })
		_, err := l.Write(join(connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(6))))
		require.NoError(t, err)
		var got []byte
		for buf := make([]byte, 1+chunk%7); ; {
			n, err := l.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		assert.Equal(t, join(connectResponse(5, 4000), noZxid(answerTo(1, codeTooLong)), noZxid(short)), got)
		assert.Equal(t, 2, e.answered)
	}
}

// The window passes while the answer to a handshake comes in: nothing is written over that link.
func TestWireWindowPassesInTheHandshake(t *testing.T) {
	s := newSession(&Config{Servers: []string{"127.0.0.1:1"}, SessionTimeout: 4 * time.Second}, &ballot{}, 4*time.Second)
	p := s.pin
	l, _ := startLink(t, p, connectResponse(5, 4000), whole)
	_, err := l.Write(connectRequest(0))
	require.NoError(t, err)
	_, err = l.Read(make([]byte, 100))
	require.NoError(t, err)
	granted := p.granted
	p.granted = func(id int64, timeout time.Duration, sent time.Time) error {
		s.Lose(driver.ErrWindow)
		return granted(id, timeout, sent)
	}
	again, conn := startLink(t, p, connectResponse(5, 4000), whole)
	_, err = again.Write(connectRequest(5))
	require.NoError(t, err)
	_, err = again.Read(make([]byte, 100))
	require.NoError(t, err, "the link closes the session")
	sent := len(conn.wrote)
	_, _ = again.Write(frame(int32(1), int32(opCreate), make([]byte, 50)))
	assert.Len(t, conn.wrote, sent)
}
