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
