package wire

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
)

// asking asks on a link whose server answers by replies, which are behind each other. It returns what the link passes on to
// the library, and the result of the Ask.
func asking(t *testing.T, vote bool, replies func(xid int32) []byte) (passed []byte, e *wireEvents, asked error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e = new(wireEvents)
		l, s := wiretest.Greeted(t, listen(e).Attach, nil, nil)
		s.Wrote = nil
		done := make(chan error, 1)
		go func() { done <- l.Ask(vote, nil) }()
		synctest.Wait()
		body, op := syncOfRoot, int32(OpSync)
		if vote {
			body, op = checkOfRoot, OpMulti
		}
		xid := int32(binary.BigEndian.Uint32(s.Wrote[4:]))
		require.Equal(t, frame(xid, op, body), s.Wrote)
		s.Reads = replies(xid)
		passed, _ = io.ReadAll(l)
		_ = l.Close()
		asked = <-done
		require.ErrorIs(t, l.Ask(vote, nil), net.ErrClosed, "the link is over")
	})
	return passed, e, asked
}

// refusedPart is the body of a reply to a multi whose only part is refused.
func refusedPart(code int32) []byte {
	return join(frame(int32(-1), false, code, code)[4:], frame(int32(-1), true, int32(-1))[4:])
}

// The session's own requests are answered to who asks, and the library never hears of them.
func TestAsk(t *testing.T) {
	event := frame(int32(xidEvent), int64(-1), int32(0), int32(3), int32(3), int32(1), []byte("/"))
	for name, try := range map[string]struct {
		vote  bool
		body  []byte
		code  int32
		want  string // the error
		votes int    // that count
	}{
		"a sync":                       {body: syncOfRoot},
		"a sync that is refused":       {code: -127, want: "unknown error: -127"},
		"a vote":                       {vote: true, body: frame(int32(OpCheck), false, int32(0), int32(-1), true, int32(-1))[4:], votes: 1},
		"a vote without a right":       {vote: true, body: refusedPart(-102), votes: 1},
		"a vote without a root":        {vote: true, body: refusedPart(-101), votes: 1},
		"a vote that is refused":       {vote: true, code: -119, want: "unknown error: -119"},
		"a vote of an unknown session": {vote: true, body: refusedPart(-112), want: "unknown error: -112", votes: 1},
		"a vote with half a reply":     {vote: true, body: refusedPart(-101)[:11], want: net.ErrClosed.Error(), votes: 1},
		"a vote with no part":          {vote: true, body: frame(int32(-1), true, int32(-1))[4:], want: net.ErrClosed.Error(), votes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			passed, e, asked := asking(t, try.vote, func(xid int32) []byte {
				return join(event, answerTo(xid, try.code, try.body...), event)
			})
			if try.want == "" {
				require.NoError(t, asked)
			} else {
				require.EqualError(t, asked, try.want)
			}
			if try.want == net.ErrClosed.Error() {
				assert.Equal(t, event, passed)
			} else {
				assert.Equal(t, join(event, event), passed)
			}
			assert.Len(t, e.epochs, try.votes)
			assert.Equal(t, 1, e.answered)
		})
	}
}

// A reply to somebody else's request, or a second one, breaks the link.
func TestAskHasItsOwnReply(t *testing.T) {
	for name, replies := range map[string]func(xid int32) []byte{
		"another's": func(xid int32) []byte { return answerTo(xid-1, 0, syncOfRoot...) },
		"none":      func(int32) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			passed, _, asked := asking(t, false, replies)
			require.ErrorIs(t, asked, net.ErrClosed)
			assert.Empty(t, passed)
		})
	}
	passed, e, asked := asking(t, false, func(xid int32) []byte {
		return slices.Concat(answerTo(xid, 0, syncOfRoot...), answerTo(xid, 0, syncOfRoot...))
	})
	require.NoError(t, asked)
	assert.Empty(t, passed)
	assert.Equal(t, 1, e.answered)
}

// A second request follows the reply to the first, unless that is a refusal.
func TestAskTwice(t *testing.T) {
	for _, code := range []int32{0, -127} {
		synctest.Test(t, func(t *testing.T) {
			l, s := wiretest.Greeted(t, listen(new(wireEvents)).Attach, nil, nil)
			asked := make(chan error, 1)
			go func() { asked <- l.Ask(false, func() bool { return true }) }()
			synctest.Wait()
			first := int32(binary.BigEndian.Uint32(s.Wrote[len(s.Wrote)-len(frame(int32(0), int32(OpSync), syncOfRoot))+4:]))
			s.Wrote, s.Reads = nil, answerTo(first, code, syncOfRoot...)
			_, _ = io.ReadAll(l)
			if code != 0 {
				require.EqualError(t, <-asked, "unknown error: -127")
				assert.Empty(t, s.Wrote)
				return
			}
			synctest.Wait()
			require.Empty(t, asked)
			require.Equal(t, frame(first-1, int32(OpMulti), checkOfRoot), s.Wrote)
			s.Reads = answerTo(first-1, 0, refusedPart(codeNoAuth)...)
			_, _ = io.ReadAll(l)
			require.NoError(t, <-asked)
		})
	}
}

// A follower takes two requests of a session for one another if they have the same number: those of a session differ,
// on all its links, and from the library's.
func TestAskedNumbers(t *testing.T) {
	p := listen(new(wireEvents))
	seen := make(map[int32]bool)
	for range 3 {
		l, s := wiretest.Greeted(t, p.Attach, nil, nil)
		for range 2 {
			s.Wrote = nil
			require.True(t, l.ask(false, nil))
			xid := int32(binary.BigEndian.Uint32(s.Wrote[4:]))
			assert.Less(t, xid, int32(xidAsk))
			assert.False(t, seen[xid])
			seen[xid] = true
		}
	}
}
