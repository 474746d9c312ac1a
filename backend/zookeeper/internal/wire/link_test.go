package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/must"
)

// Short names.
var (
	frame, answerTo, join           = wiretest.Frame, wiretest.AnswerTo, slices.Concat[[]byte]
	connectRequest, connectResponse = wiretest.ConnectRequest, wiretest.ConnectResponse
	say                             = wiretest.Say
)

type wireEvents struct {
	granted  []int64
	timeouts []time.Duration
	answered int
	epochs   []uint64 // of votes
	expired  int
	foreign  int
}

// listen returns a Pin that notes its events.
func listen(e *wireEvents) *Pin {
	p := New(Events{
		Granted: func(id int64, timeout time.Duration, _ time.Time) error {
			e.granted = append(e.granted, id)
			e.timeouts = append(e.timeouts, timeout)
			return nil
		},
		Answered: func(time.Time) { e.answered++ },
		Voted:    func(_ time.Time, epoch uint64) { e.epochs = append(e.epochs, epoch) },
		Expired:  func() { e.expired++ },
		Foreign:  func() { e.foreign++ },
	}, numbered, 0)
	p.WithBuffer(0, 0)(new(zk.Conn))
	return p
}

// keeperResponse is the response of a server that makes no passwords.
func keeperResponse(session int64) []byte {
	return frame(int32(0), int32(4000), session, int32(16), make([]byte, 16))
}

// longMulti is the body of a reply to a multi that is longer than lookAhead: two creations and the end.
func longMulti() []byte {
	created := join([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0}, frame(make([]byte, 1800)))
	return join(created, created, []byte{0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff})
}

// readPieces reads a link to its end, in pieces of size.
func readPieces(t *testing.T, l *Link, size func() int) (all []byte) {
	t.Helper()
	for {
		buf := make([]byte, size())
		n, err := l.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return all
		}
	}
}

// noZxid returns a reply as the link passes it on: see Link.keepZxid.
func noZxid(answer []byte) []byte {
	clear(answer[8:16])
	return answer
}

// The link understands replies in pieces of any size, and changes nothing except their zxids.
func TestWireInPieces(t *testing.T) {
	for round := range 200 {
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		piece := func() int { return 1 + rng.IntN(40) }
		fromServer := join(connectResponse(5, 4000), answerTo(-2, 0), answerTo(1, 0, make([]byte, 100)...),
			answerTo(-1, 0, make([]byte, 30)...), answerTo(2, -101), answerTo(3, 0, longMulti()...), answerTo(-2, 0))
		handedOn := join(connectResponse(5, 4000), answerTo(-2, 0), noZxid(answerTo(1, 0, make([]byte, 100)...)),
			answerTo(-1, 0, make([]byte, 30)...), noZxid(answerTo(2, -101)), noZxid(answerTo(3, 0, longMulti()...)), answerTo(-2, 0))
		var e wireEvents
		l, s := wiretest.Attach(t, listen(&e).Attach, fromServer, piece)
		fromClient := [][]byte{
			connectRequest(0), frame(int32(-2), int32(11)), frame(int32(1), int32(4), make([]byte, 50)),
			frame(int32(2), int32(6)), frame(int32(3), int32(14)), frame(int32(-2), int32(11)),
		}
		say(t, l, fromClient...)
		assert.Equal(t, join(fromClient...), s.Wrote)
		assert.Equal(t, handedOn, readPieces(t, l, piece))
		assert.Equal(t, []int64{5}, e.granted)
		assert.Equal(t, []time.Duration{4 * time.Second}, e.timeouts)
		assert.Equal(t, 5, e.answered)
		assert.Zero(t, e.expired)
		assert.Empty(t, l.outstanding)
	}
}

// Pitfall 2, at the wire: after a session was granted, a request for another one is not sent.
func TestPitfall02WireRefusesNewSession(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	wiretest.Greeted(t, p.Attach, nil, nil)
	_, s := wiretest.Greeted(t, p.Attach, nil, nil)
	assert.NotEmpty(t, s.Wrote)

	for _, other := range []int64{0, 6} {
		e.expired = 0
		renewed, s := wiretest.Attach(t, p.Attach, nil, nil)
		_, err := renewed.Write(connectRequest(other))
		require.ErrorIs(t, err, ErrUnpinned)
		assert.Empty(t, s.Wrote, "not a byte may leave")
		assert.Equal(t, 1, e.expired)
	}

	for name, try := range map[string]struct {
		answer []byte
		err    error
	}{
		"a server that hands out another session is not believed either": {connectResponse(9, 4000), ErrUnpinned},
		"expired: told before the client library knows":                  {connectResponse(0, 0), nil},
	} {
		e.expired = 0
		l, _ := wiretest.Attach(t, p.Attach, try.answer, nil)
		say(t, l, connectRequest(5))
		_, err := l.Read(make([]byte, 100))
		require.ErrorIs(t, err, try.err, name)
		assert.Equal(t, 1, e.expired, name)
	}

	p.Kill(net.ErrClosed)
	_, err := p.Attach(&wiretest.Script{}, time.Second)
	require.ErrorIs(t, err, net.ErrClosed)
}

// No bytes from a server crash the process or make it allocate without limit.
func TestWireHostile(t *testing.T) {
	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	negative := []byte{0xff, 0xff, 0xff, 0xff}
	connected := connectResponse(5, 4000)
	for name, try := range map[string]struct {
		op    int32 // of the first of two requests
		reads []byte
	}{
		"huge handshake":       {0, huge},
		"short handshake":      {0, frame(int32(0), int32(4000))},
		"no timeout":           {0, connectResponse(5, 0)},
		"negative timeout":     {0, connectResponse(5, -1)},
		"negative length":      {0, join(connected, negative)},
		"short frame":          {0, join(connected, frame(int32(1), int64(1)))},
		"empty frame":          {0, join(connected, frame())},
		"answer to nothing":    {0, join(connected, answerTo(77, 0))},
		"answer skipped":       {0, join(connected, answerTo(2, 0))},
		"too many children":    {OpChildren, join(connected, answerTo(1, 0, 0xff, 0xff, 0xff, 0xff))},
		"negative children":    {OpChildren, join(connected, answerTo(1, 0, 0xff, 0xff, 0xff, 0xff))},
		"list cut off":         {OpChildren, join(connected, answerTo(1, 0, 0, 0))},
		"huge value":           {OpGetData, join(connected, answerTo(1, 0, join(huge, make([]byte, 100))...))},
		"value cut off":        {OpGetData, join(connected, answerTo(1, 0, make([]byte, 71)...))},
		"stat cut off":         {OpExists, join(connected, answerTo(1, 0, make([]byte, 67)...))},
		"created path cut off": {OpCreate, join(connected, answerTo(1, 0, 0, 0, 0, 5, '/'))},
		"created without stat": {opCreate2, join(connected, answerTo(1, 0, join([]byte{0, 0, 0, 1, '/'}, make([]byte, 67))...))},
		"huge created path":    {opCreate2, join(connected, frame(int32(1), int64(7), int32(0), int32(1), make([]byte, maxWhole)))},
		"multi without end":    {OpMulti, join(connected, answerTo(1, 0, 0, 0, 0, 5))},
		"long multi cut off":   {OpMulti, join(connected, answerTo(1, 0, longMulti()[:3000]...))},
		"huge multi":           {OpMulti, join(connected, frame(int32(1), int64(7), int32(0), make([]byte, maxWhole)))},
		"very long multi cut":  {OpMulti, join(connected, answerTo(1, 0, join(longMulti()[:3626], longMulti()[:7246-3626])...))},
		"multi of a long path": {OpMulti, join(connected, answerTo(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff))},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(new(wireEvents))
			l, _ := wiretest.Attach(t, p.Attach, try.reads, nil)
			first := frame(int32(1), try.op)
			if try.op == opCreate2 {
				ask, _ := p.Telling("/")
				first = frame(int32(1), int32(OpCreate), int32(len(ask)), []byte(ask))
			}
			say(t, l, connectRequest(0), first, frame(int32(2), int32(6)))
			require.ErrorIs(t, must.Err(io.ReadAll(l)), ErrProtocol)
		})
	}
}

// A request that is not written whole is not sent: it could not be changed.
func TestWireWholeRequests(t *testing.T) {
	l, s := wiretest.Greeted(t, listen(new(wireEvents)).Attach, nil, nil)
	request, sent := frame(int32(1), int32(OpExists)), len(s.Wrote)
	for _, p := range [][]byte{nil, request[:4], request[:len(request)-1], join(request, request), frame(int32(1))} {
		require.ErrorIs(t, must.Err(l.Write(p)), ErrProtocol)
	}
	assert.Len(t, s.Wrote, sent)
}

// A session that sends heartbeats needs the client library's pings only while it sends nothing.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ping, read := frame(int32(xidPing), int32(OpPing)), frame(int32(1), int32(OpExists))
		for _, beats := range []bool{true, false} {
			p := listen(new(wireEvents))
			if beats {
				p.Beats()
			}
			l, s := wiretest.Greeted(t, p.Attach, nil, nil)
			sent := func() int {
				s.Wrote = nil
				say(t, l, ping)
				return len(s.Wrote)
			}
			assert.Len(t, ping, sent(), "nothing was sent before")
			say(t, l, read)
			time.Sleep(999 * time.Millisecond) // the timeout is 4 s
			if want := len(ping); beats {
				assert.Zero(t, sent())
			} else {
				assert.Equal(t, want, sent())
			}
			time.Sleep(time.Millisecond)
			assert.Len(t, ping, sent())
		}
	})
}

// A reply to a request for authentication says nothing about the session's life, and may overtake
// others.
func TestWireAuthIsNoHeartbeat(t *testing.T) {
	var e wireEvents
	l, _ := wiretest.Attach(t, listen(&e).Attach, join(connectResponse(5, 4000), answerTo(2, 0), answerTo(1, 0)), nil)
	say(t, l, connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(OpAuth)))
	var counts []int
	for err := error(nil); err == nil; counts = append(counts, e.answered) {
		_, err = l.Read(make([]byte, 4096))
	}
	assert.Equal(t, []int{0, 0, 1, 1}, counts)
}

// A write with a successful reply is a vote, at the epoch of the reply. A write that was refused before
// it was proposed, and a read, are none.
func TestWireVotes(t *testing.T) {
	var e wireEvents
	reads := join(connectResponse(5, 4000), answerTo(1, 0), answerTo(2, -127), answerTo(3, 0, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff), answerTo(4, 0))
	l, _ := wiretest.Attach(t, listen(&e).Attach, reads, nil)
	before := time.Now()
	say(t, l, connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(OpMulti)), frame(int32(3), int32(OpMulti)), frame(int32(4), int32(6)))
	var votes []int
	for err := error(nil); err == nil; votes = append(votes, len(e.epochs)) {
		_, err = l.Read(make([]byte, 4096))
	}
	assert.Equal(t, []int{0, 0, 0, 1, 1, 1}, votes)
	voted, epoch := l.NewestVote()
	assert.False(t, voted.Before(before))
	assert.Equal(t, e.epochs[0], epoch)
}

// FuzzWire checks that replies of any bytes, in any pieces, do not crash the process, and that no more
// replies are counted than requests were sent.
func FuzzWire(f *testing.F) {
	f.Add(join(connectResponse(5, 4000), answerTo(1, 0), answerTo(-2, 0), answerTo(3, 0, 0, 0, 0, 5, 0)), uint8(3))
	f.Fuzz(func(t *testing.T, reads []byte, chunk uint8) {
		var e wireEvents
		l, _ := wiretest.Attach(t, listen(&e).Attach, reads, func() int { return int(chunk) })
		say(t, l, connectRequest(0), frame(int32(1), int32(6)), frame(int32(-2), int32(11)), frame(int32(3), int32(14)))
		_, _ = io.ReadAll(l)
		if e.answered > 3 {
			t.Fatalf("%d answers to three requests", e.answered)
		}
	})
}

// A reply that is too long is passed on as an error, and the next one unchanged, in any pieces.
func TestWireTooLong(t *testing.T) {
	for chunk := range 60 {
		var e wireEvents
		p := listen(&e)
		p.buffers.maxAnswer = 100
		long, short := answerTo(1, 0, make([]byte, 1000)...), answerTo(2, 0, []byte("body")...)
		l, _ := wiretest.Attach(t, p.Attach, join(connectResponse(5, 4000), long, short), func() int { return chunk })
		say(t, l, connectRequest(0), frame(int32(1), int32(6)), frame(int32(2), int32(6)))
		got := readPieces(t, l, func() int { return 1 + chunk%7 })
		assert.Equal(t, join(connectResponse(5, 4000), noZxid(answerTo(1, CodeTooLong)), noZxid(short)), got)
		assert.Equal(t, 2, e.answered)
	}
}

// A request that is sent just as the session closes may be answered three times by the client library,
// into a channel for two: when it is queued, when its write fails, and when the outstanding requests
// are cleared. If its caller has left, the third blocks the library's loop for ever, and Close with it.
// So a failed write ends the link, and is no error.
func TestWriteThatFailsIsNoAnswer(t *testing.T) {
	var e wireEvents
	l, s := wiretest.Attach(t, listen(&e).Attach, connectResponse(5, 4000), nil)
	say(t, l, connectRequest(0))
	l.Conn = &broken{s}
	say(t, l, frame(int32(1), int32(OpClose)))
	assert.True(t, s.Closed, "reading tells")
}

type broken struct{ *wiretest.Script }

func (*broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The next link begins with the zxid of the last: the connect request and the setting of watches carry
// it, no matter which replies have come meanwhile.
func TestWireKeepsTheZxid(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	first, _ := wiretest.Greeted(t, p.Attach, answerTo(1, 0), nil)
	say(t, first, frame(int32(1), int32(6)))
	answer := must.Get(io.ReadAll(first))(t)
	assert.Zero(t, binary.BigEndian.Uint64(answer[8:]), "the library gets to see no zxid: it would race with itself")

	second, s := wiretest.Attach(t, p.Attach, join(connectResponse(5, 4000), frame(int32(2), int64(9), int32(0))), nil)
	say(t, second, connectRequest(5))
	say(t, second, frame(int32(2), int32(6)))
	must.Get(io.ReadAll(second))(t) // a reply at zxid 9 overtakes the setting of watches
	sendsZxids(t, second, s, 7, 7)
	assert.EqualValues(t, 9, p.zxid)
}

// sendsZxids checks the zxids of the connect request and of a setting of watches.
func sendsZxids(t *testing.T, l *Link, s *wiretest.Script, connect, watches int) {
	t.Helper()
	before := len(s.Wrote)
	setWatches := frame(int32(3), int32(OpSetWatches), int64(0), make([]byte, 12))
	must.Get(l.Write(setWatches))(t)
	assert.Zero(t, binary.BigEndian.Uint64(setWatches[requestHead:]), "the caller's buffer is the caller's")
	assert.EqualValues(t, connect, binary.BigEndian.Uint64(s.Wrote[8:]), "connect request")
	assert.EqualValues(t, watches, binary.BigEndian.Uint64(s.Wrote[before+requestHead:]), "setting of watches")
}

// The next server must also have what an event has shown. But more events of the same transaction may
// follow, so watches are set as of the last reply.
func TestWireKeepsTheZxidOfEvents(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	first, _ := wiretest.Greeted(t, p.Attach, join(answerTo(1, 0), frame(int32(xidEvent), int64(8), int32(0)), frame(int32(xidEvent), int64(-1), int32(0))), nil)
	say(t, first, frame(int32(1), int32(6)))
	must.Get(io.ReadAll(first))(t)

	second, s := wiretest.Attach(t, p.Attach, nil, nil)
	say(t, second, connectRequest(5))
	sendsZxids(t, second, s, 8, 7)
}

// A read of a path that must be watched is sent with a watch, and no other read is.
func TestWireSetsWatches(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	l, s := wiretest.Greeted(t, p.Attach, nil, nil)
	read := func(op int32, path string) (sent byte) {
		t.Helper()
		request := frame(int32(1), op, int32(len(path)), []byte(path), byte(0))
		must.Get(l.Write(request))(t)
		assert.Zero(t, request[len(request)-1], "the caller's buffer is the caller's")
		return s.Wrote[len(s.Wrote)-1]
	}
	first := p.Watching(OpGetData, "/a")
	second := p.Watching(OpGetData, "/a")
	assert.EqualValues(t, 1, read(OpGetData, "/a"))
	assert.Zero(t, read(OpGetData, "/ab"))
	assert.Zero(t, read(OpExists, "/a"))
	first()
	assert.EqualValues(t, 1, read(OpGetData, "/a"), "another call goes on")
	second()
	assert.Zero(t, read(OpGetData, "/a"))
	assert.Empty(t, p.watched.reads)
}

// A server that grants a session without a password is no ZooKeeper. An existing session is not lost by
// that, as its other servers may be right.
func TestWireRefusesServersWithoutPasswords(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	connect := func(response []byte) error {
		l, _ := wiretest.Attach(t, p.Attach, response, nil)
		say(t, l, connectRequest(p.session))
		_, err := l.Read(make([]byte, 100))
		return err
	}
	for _, session := range []int64{5, -1} { // the latter comes from a Keeper that has no leader
		require.ErrorIs(t, connect(keeperResponse(session)), errors.ErrUnsupported)
	}
	assert.Equal(t, 2, e.foreign)
	assert.Zero(t, p.session, "none was granted")
	require.NoError(t, connect(connectResponse(5, 4000)))
	require.ErrorIs(t, connect(keeperResponse(6)), errors.ErrUnsupported)
	assert.Equal(t, 2, e.foreign, "the session goes on")
	assert.Zero(t, e.expired, "another server may know it")
}

// What ends a link before the session is granted is told, and what ends it later is not.
func TestWireUnanswered(t *testing.T) {
	for _, reads := range [][]byte{nil, connectResponse(5, 4000)} {
		p := listen(new(wireEvents))
		l, _ := wiretest.Attach(t, p.Attach, reads, nil)
		var told []error
		l.Unanswered(func(err error) { told = append(told, err) })
		say(t, l, connectRequest(0))
		readPieces(t, l, func() int { return 64 })
		if reads == nil {
			assert.Equal(t, []error{io.EOF}, told)
		} else {
			assert.Empty(t, told)
		}
	}
}
