package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
)

// A create that asks for it goes out as the one whose reply has a Stat, and the library gets the zxid of the creation
// with the path. A refusal and the replies to others pass unchanged, a user's create too.
func TestCreated(t *testing.T) {
	const zxid = 0x0500_0000_0102
	stat := frame(int64(zxid), make([]byte, statLength-zxidLength))[4:]
	for _, path := range []string{"/e/x", "/" + strings.Repeat("long", 2*lookAhead)} {
		create := func(op, xid int32, path string) []byte {
			return frame(xid, op, int32(len(path)), []byte(path), []byte("data"))
		}
		reply := answerTo(1, 0, appendBytes(nil, []byte(path))...)
		users := answerTo(3, 0, appendBytes(nil, []byte(path))...)
		piece := func() int { return 7 }
		var events wireEvents
		p := listen(&events)
		ask, done := p.Telling(path)
		l, s := wiretest.Attach(t, p.Attach,
			join(connectResponse(5, 4000), frame(reply[4:], stat), answerTo(2, -110), users), piece)
		say(t, l, connectRequest(0), create(OpCreate, 1, ask), create(OpCreate, 2, ask), create(OpCreate, 3, path))
		assert.Equal(t, join(connectRequest(0), create(15, 1, path), create(15, 2, path), create(OpCreate, 3, path)), s.Wrote)
		handed := readPieces(t, l, piece)
		result := path + "0000050000000102"
		assert.Equal(t, join(connectResponse(5, 4000), noZxid(answerTo(1, 0, appendBytes(nil, []byte(result))...)),
			noZxid(answerTo(2, -110)), noZxid(users)), handed)
		assert.Len(t, events.epochs, 2, "both creates that were done are votes")
		done()
		say(t, l, create(OpCreate, 4, ask))
		assert.True(t, bytes.HasSuffix(s.Wrote, create(OpCreate, 4, ask)), "it is a user's")
		made, at := Created(result)
		assert.Equal(t, path, made)
		assert.EqualValues(t, zxid, at)
	}
	made, at := Created("") // of a refusal
	assert.Empty(t, made)
	assert.Zero(t, at)
}
