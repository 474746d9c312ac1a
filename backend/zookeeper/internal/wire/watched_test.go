package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
)

// A sync of a certain path goes out as the removal of a watch, and its reply comes back as that of a sync. A
// path that the user watches, too, keeps its watch.
func TestUnwatch(t *testing.T) {
	of := func(op, xid int32, path string, rest ...byte) []byte {
		return frame(xid, op, int32(len(path)), []byte(path), rest)
	}
	piece := func() int { return 7 }
	p := listen(new(wireEvents))
	l, s := wiretest.Attach(t, p.Attach, join(connectResponse(5, 4000), answerTo(1, 0), answerTo(2, 0),
		answerTo(3, -121), answerTo(4, 0, make([]byte, 4+statLength)...), answerTo(5, 0, 0, 0, 0, 0)), piece)
	node, done := p.Unwatch(OnNode, "/a")
	defer done()
	children, done := p.Unwatch(OnChildren, "/a/b")
	defer done()
	say(t, l, connectRequest(0), of(OpSync, 1, node), of(OpSync, 2, children), of(OpSync, 3, node),
		of(OpGetData, 4, "/a", 1), of(OpSync, 5, node))
	assert.Equal(t, join(connectRequest(0), of(OpUnwatch, 1, "/a", 0, 0, 0, 2), of(OpUnwatch, 2, "/a/b", 0, 0, 0, 1),
		of(OpUnwatch, 3, "/a", 0, 0, 0, 2), of(OpGetData, 4, "/a", 1), of(OpSync, 5, node)), s.Wrote)
	handed := []byte{}
	for _, answer := range [][]byte{answerTo(1, 0, 0, 0, 0, 0), answerTo(2, 0, 0, 0, 0, 0), answerTo(3, -121),
		answerTo(4, 0, make([]byte, 4+statLength)...), answerTo(5, 0, 0, 0, 0, 0)} {
		handed = append(handed, noZxid(answer)...)
	}
	assert.Equal(t, join(connectResponse(5, 4000), handed), readPieces(t, l, piece))
}

// A user's watch is kept from its request on, and until it fires: not that of an earlier request whose event
// comes late, nor one that was never set. So what is noted of users' watches is what they wait for.
func TestUnwatchKeepsTheUsersWatches(t *testing.T) {
	piece := func() int { return 64 }
	p := listen(new(wireEvents))
	l, s := wiretest.Attach(t, p.Attach, connectResponse(5, 4000), piece)
	say(t, l, connectRequest(0))
	readPieces(t, l, piece)
	xid := int32(0)
	ask := func(op int32, path string, rest ...byte) {
		xid++
		say(t, l, frame(xid, op, int32(len(path)), []byte(path), rest))
	}
	answer := func(xid, code int32, body ...byte) {
		s.Reads = answerTo(xid, code, body...)
		readPieces(t, l, piece)
	}
	value, stat, empty := make([]byte, 4+statLength), make([]byte, statLength), make([]byte, 4)
	removes := func(on byte, path string, want bool) {
		t.Helper()
		s.Wrote = nil
		sync, done := p.Unwatch(on, path)
		ask(OpSync, sync)
		done()
		op := int32(OpSync)
		if want {
			op = OpUnwatch
		}
		assert.Equal(t, frame(xid, op)[4:], s.Wrote[4:][:8])
	}
	for round := range int32(3) {
		ask(OpGetData, "/a", 1)
		first := xid
		removes(OnNode, "/a", false)
		removes(OnChildren, "/a", true)
		answer(first, 0, value...)
		answer(first+1, 0, empty...)
		answer(first+2, 0, empty...)
		removes(OnNode, "/a", false)
		answer(xid, 0, empty...)

		ask(OpGetData, "/a", 1) // and the event of the first comes before this reply
		p.Fired(OnNode, "/a")
		removes(OnNode, "/a", false)
		answer(xid-1, 0, value...)
		answer(xid, 0, empty...)
		removes(OnNode, "/a", false)
		answer(xid, 0, empty...)
		p.Fired(OnChildren, "/a")
		removes(OnNode, "/a", false)
		answer(xid, 0, empty...)
		p.Fired(OnNode, "/a")
		removes(OnNode, "/a", true)
		answer(xid, 0, empty...)

		for _, c := range []struct {
			op, code int32
			body     []byte
			stays    bool
		}{
			{OpGetData, -101, nil, false},
			{OpExists, -102, nil, false},
			{OpExists, -101, nil, true},
			{OpExists, 0, stat, true},
		} {
			ask(c.op, "/b", 1)
			answer(xid, c.code, c.body...)
			removes(OnNode, "/b", !c.stays)
			answer(xid, 0, empty...)
			p.Fired(OnNode, "/b")
		}
		assert.Empty(t, p.watched.users, "round %d", round)
	}
}
