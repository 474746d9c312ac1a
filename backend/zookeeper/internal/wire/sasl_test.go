package wire

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/must"
)

// turns is an Exchange that sends "token 0", "token 1" and so on, and notes what it is told. After the last
// one, it is done; last may be 0, so that the server has the last word.
type turns struct {
	told    [][]byte
	last    int
	refused int
}

func (x *turns) Refused() { x.refused++ }

func (x *turns) Next(challenge []byte) ([]byte, bool, error) {
	x.told = append(x.told, challenge)
	n := len(x.told) - 1
	if string(challenge) == "wrong" {
		return nil, false, errors.New("wrong proof")
	}
	if x.last == 0 && string(challenge) == "bye" {
		return nil, true, nil
	}
	return []byte("token " + strconv.Itoa(n)), x.last > 0 && n == x.last, nil
}

// tokenOf is the server's reply to a token; nil is none.
func tokenOf(xid int32, token []byte) []byte {
	if token == nil {
		return answerTo(xid, 0, 0xff, 0xff, 0xff, 0xff)
	}
	return answerTo(xid, 0, appendBytes(nil, token)...)
}

func saslRequest(xid int32, token string) []byte {
	return frame(xid, int32(OpSASL), int32(len(token)), []byte(token))
}

// authenticating returns a link that is to run an exchange, and why that failed.
func authenticating(t *testing.T, p *Pin, x Exchange, reads []byte, chunk func() int) (*Link, *wiretest.Script, *error) {
	l, s := wiretest.Attach(t, p.Attach, reads, chunk)
	var failed error
	l.Authenticate(x, func(err error) {
		require.NoError(t, failed, "told once")
		failed = err
	})
	return l, s, &failed
}

// The exchange runs between the connect response and anything else, and only then is the session told. The
// client library sees none of it, in any pieces.
func TestSASLFirst(t *testing.T) {
	for chunk := range 40 {
		for name, try := range map[string]struct {
			last  int
			reads []byte
			told  [][]byte
		}{
			"the server's last word":  {0, join(tokenOf(1, []byte("a")), tokenOf(2, []byte("bye"))), [][]byte{nil, []byte("a"), []byte("bye")}},
			"the client's last token": {2, join(tokenOf(1, []byte("a")), tokenOf(2, []byte{}), tokenOf(3, nil)), [][]byte{nil, []byte("a"), {}}},
		} {
			var e wireEvents
			x := &turns{last: try.last}
			p := listen(&e)
			reads := join(connectResponse(5, 4000), try.reads, answerTo(1, 0))
			l, s, failed := authenticating(t, p, x, reads, func() int { return chunk })
			say(t, l, connectRequest(0))
			assert.Empty(t, e.granted, name)
			var got []byte
			for len(got) < len(connectResponse(5, 4000)) {
				piece := make([]byte, 1+chunk)
				got = append(got, piece[:must.Get(l.Read(piece))(t)]...)
			}
			assert.Equal(t, connectResponse(5, 4000), got, name)
			assert.Equal(t, []int64{5}, e.granted, name)
			assert.Equal(t, try.told, x.told, name)
			sent := connectRequest(0)
			for i := range len(x.told) - 1 + min(try.last, 1) {
				sent = join(sent, saslRequest(int32(i+1), "token "+strconv.Itoa(i)))
			}
			assert.Equal(t, sent, s.Wrote, name)
			say(t, l, frame(int32(1), int32(6)))
			assert.Equal(t, noZxid(answerTo(1, 0)), readPieces(t, l, func() int { return 7 }), name)
			assert.Equal(t, 1, e.answered, name)
			require.NoError(t, *failed)
		}
	}
}

// After no failure is the session known, or a byte more sent. The next link may be for another session.
func TestSASLFails(t *testing.T) {
	endless := []byte{}
	for xid := range int32(100) {
		endless = join(endless, tokenOf(xid+1, []byte("more")))
	}
	for name, try := range map[string]struct {
		reads  []byte
		is     error
		says   string
		tokens int // that are sent
	}{
		"refused at once":             {answerTo(1, -115, 0xff, 0xff, 0xff, 0xff), ErrRefused, "another mechanism", 1},
		"refused":                     {join(tokenOf(1, []byte("a")), answerTo(2, -115, 0xff, 0xff, 0xff, 0xff)), ErrRefused, "wrong password", 2},
		"refused, and required":       {join(tokenOf(1, []byte("a")), answerTo(2, -124)), ErrRefused, "(-124)", 2},
		"another code":                {answerTo(1, -1), nil, "unknown error: -1", 1},
		"accepted without a proof":    {tokenOf(1, nil), ErrRefused, "JAAS", 1},
		"accepted before the proof":   {join(tokenOf(1, []byte("a")), tokenOf(2, nil)), ErrRefused, "allowSaslFailedClients", 2},
		"a wrong proof":               {join(tokenOf(1, []byte("a")), tokenOf(2, []byte("wrong"))), nil, "wrong proof", 2},
		"tokens for ever":             {endless, ErrProtocol, "not ended after 10 tokens", 10},
		"out of turn":                 {tokenOf(2, []byte("a")), ErrProtocol, "answer to 2 instead of 1", 1},
		"an event in between":         {frame(int32(xidEvent), int64(-1), int32(0), []byte("xx")), ErrProtocol, "answer to -1", 1},
		"the reply to a ping":         {answerTo(xidPing, 0), ErrProtocol, "answer to -2", 1},
		"a second connect response":   {connectResponse(5, 4000), ErrProtocol, "answer to 0", 1},
		"dropped at once":             {nil, io.EOF, "the server closed the connection", 1},
		"dropped in the head":         {tokenOf(1, []byte("a"))[:9], io.ErrUnexpectedEOF, "the server closed the connection", 1},
		"dropped in the token":        {tokenOf(1, []byte("abc"))[:22], io.ErrUnexpectedEOF, "", 1},
		"dropped in the middle":       {tokenOf(1, []byte("a")), io.EOF, "before 3.5.9", 2},
		"a token that is too long":    {tokenOf(1, make([]byte, maxToken+1)), ErrProtocol, "frame of", 1},
		"a frame of 2 GB":             {[]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ErrProtocol, "frame of 2147483647", 1},
		"a frame of no size":          {[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ErrProtocol, "frame of -1", 1},
		"no token, and no null":       {answerTo(1, 0), ErrProtocol, "a token is missing", 1},
		"a token longer than itself":  {answerTo(1, 0, 0, 0, 0, 2, 'a'), ErrProtocol, "a token of 2 bytes in 1", 1},
		"a token shorter than itself": {answerTo(1, 0, 0, 0, 0, 0, 'a'), ErrProtocol, "a token of 0 bytes in 1", 1},
		"a negative token":            {answerTo(1, 0, 0xff, 0xff, 0xff, 0xfe), ErrProtocol, "a token of -2 bytes", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var e wireEvents
			p := listen(&e)
			x := new(turns)
			l, s, failed := authenticating(t, p, x, join(connectResponse(5, 4000), try.reads), nil)
			say(t, l, connectRequest(0))
			n, err := l.Read(make([]byte, 100))
			require.Error(t, err)
			assert.Zero(t, n, "the client library does not hear of the session")
			assert.Equal(t, err, *failed)
			if try.is != nil {
				require.ErrorIs(t, err, try.is)
			}
			assert.Equal(t, try.is == ErrRefused, errors.Is(err, ErrRefused), "%v", err)
			assert.Equal(t, try.is == ErrRefused, x.refused == 1, "the exchange is told")
			require.ErrorContains(t, err, try.says)
			assert.Empty(t, e.granted)
			assert.Zero(t, p.session)
			sent := connectRequest(0)
			for i := range try.tokens {
				sent = join(sent, saslRequest(int32(i+1), "token "+strconv.Itoa(i)))
			}
			assert.Equal(t, sent, s.Wrote)

			next, _, _ := authenticating(t, p, new(turns), join(connectResponse(6, 4000), tokenOf(1, []byte("bye"))), nil)
			say(t, next, connectRequest(0))
			must.Get(next.Read(make([]byte, 100)))(t)
			assert.Equal(t, []int64{6}, e.granted)
		})
	}
}

// A token after the end is a violation: it would be taken for the reply to a request.
func TestSASLEnds(t *testing.T) {
	l, _, _ := authenticating(t, listen(new(wireEvents)), &turns{last: 1}, join(connectResponse(5, 4000), tokenOf(1, []byte("a")), tokenOf(2, []byte("b"))), nil)
	say(t, l, connectRequest(0))
	_, err := l.Read(make([]byte, 100))
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorContains(t, err, "another token")
}

// Each link authenticates by itself, those of a session that is to be closed, too. A session that has expired
// is told without.
func TestSASLOnEachLink(t *testing.T) {
	var e wireEvents
	p := listen(&e)
	for range 3 {
		x := new(turns)
		l, _, _ := authenticating(t, p, x, join(connectResponse(5, 4000), tokenOf(1, []byte("bye"))), nil)
		say(t, l, connectRequest(p.session))
		must.Get(l.Read(make([]byte, 100)))(t)
		assert.Len(t, x.told, 2)
		p.CloseOnly()
	}
	assert.Len(t, e.granted, 3)

	refused, s, failed := authenticating(t, p, new(turns), join(connectResponse(5, 4000), answerTo(1, codeAuthFailed)), nil)
	say(t, refused, connectRequest(5))
	require.ErrorIs(t, must.Err(refused.Read(make([]byte, 100))), ErrRefused)
	require.ErrorIs(t, *failed, ErrRefused)
	assert.NotEmpty(t, s.Wrote)
	assert.Zero(t, e.expired, "another server may accept it")

	x := new(turns)
	expired, _, _ := authenticating(t, p, x, connectResponse(0, 0), nil)
	say(t, expired, connectRequest(5))
	must.Get(expired.Read(make([]byte, 100)))(t)
	assert.Equal(t, 1, e.expired)
	assert.Empty(t, x.told)
}

// The time for the handshake bounds the exchange, and Hurry shortens it, no matter what the client library
// sets meanwhile.
func TestSASLTakesTheTimeOfTheHandshake(t *testing.T) {
	for limit, hurry := range map[time.Duration]bool{4 * time.Second: false, 5 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			handshake := limit
			if hurry {
				handshake = time.Hour
			}
			l := must.Get(listen(new(wireEvents)).Attach(ours, handshake))(t)
			l.Authenticate(new(turns), func(error) {})
			go func() {
				wiretest.ReadFrame(theirs)
				_, _ = theirs.Write(connectResponse(5, 4000))
				wiretest.ReadFrame(theirs) // and never replies
				if hurry {
					l.Hurry(time.Now().Add(limit))
				}
			}()
			say(t, l, connectRequest(0))
			require.NoError(t, l.SetReadDeadline(time.Time{}))
			began := time.Now()
			var network net.Error
			require.ErrorAs(t, must.Err(l.Read(make([]byte, 100))), &network)
			assert.True(t, network.Timeout())
			assert.Equal(t, limit, time.Since(began))
		})
	}
}

// Without the client library it is the same.
func TestSASLOfATalk(t *testing.T) {
	x := &turns{last: 1}
	s := &wiretest.Script{Reads: join(tokenOf(1, []byte("a")), tokenOf(2, nil))}
	require.NoError(t, (&Talk{Conn: s}).SASL(x))
	assert.Equal(t, join(saslRequest(1, "token 0"), saslRequest(2, "token 1")), s.Wrote)
	require.ErrorIs(t, (&Talk{Conn: &wiretest.Script{Reads: answerTo(1, codeSASLRequired)}}).SASL(new(turns)), ErrRefused)
}

// FuzzSASL checks that no bytes of a server crash the process, or end without an error where the exchange has
// not ended.
func FuzzSASL(f *testing.F) {
	f.Add(join(tokenOf(1, []byte("a")), tokenOf(2, []byte("bye"))), uint8(3))
	f.Fuzz(func(t *testing.T, reads []byte, chunk uint8) {
		x := new(turns)
		s := &wiretest.Script{Reads: reads, Chunk: func() int { return int(chunk) }}
		err := (&Talk{Conn: s}).SASL(x)
		if done := string(x.told[len(x.told)-1]) == "bye"; done != (err == nil) {
			t.Fatalf("done: %v, error: %v", done, err)
		}
		if len(s.Wrote) > maxRounds*100 {
			t.Fatal("it goes on and on")
		}
	})
}
