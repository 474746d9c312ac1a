package zookeeper

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request that is sent just as the session closes may be answered three times by the
// client library, into a channel for two: as it is queued, when its write fails, and when
// what is outstanding is cleared away. If its caller has left, the third blocks the
// library's loop for ever, and Close with it. So a write that fails ends the link, and is
// no error.
func TestWriteThatFailsIsNoAnswer(t *testing.T) {
	var e wireEvents
	l, s := startLink(t, newPin(&e), connectResponse(5, 4000), whole)
	_, err := l.Write(connectRequest(0))
	require.NoError(t, err)
	l.Conn = &broken{s}
	request := frame(int32(1), int32(opClose))
	n, err := l.Write(request)
	require.NoError(t, err)
	assert.Equal(t, len(request), n)
	assert.True(t, s.closed, "reading tells")
}

type broken struct{ *script }

func (*broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
