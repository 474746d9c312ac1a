package zookeeper

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The next link begins with the zxid of the last: the connect request and the
// setting of watches carry it, whatever has been answered meanwhile.
func TestWireKeepsTheZxid(t *testing.T) {
	var e wireEvents
	p := newPin(&e)
	first, _ := startLink(t, p, join(connectResponse(5, 4000), answerTo(1, 0)), whole)
	_, err := first.Write(join(connectRequest(0), frame(int32(1), int32(6))))
	require.NoError(t, err)
	read, err := io.ReadAll(first)
	require.NoError(t, err)
	answer := read[len(connectResponse(5, 4000)):]
	assert.Zero(t, binary.BigEndian.Uint64(answer[8:]), "the library gets to see no zxid: it would race with itself")

	second, s := startLink(t, p, join(connectResponse(5, 4000), frame(int32(2), int64(9), int32(0))), whole)
	_, err = second.Write(connectRequest(5))
	require.NoError(t, err)
	_, err = second.Write(frame(int32(2), int32(6)))
	require.NoError(t, err)
	_, err = io.ReadAll(second) // an answer at zxid 9 overtakes the setting of watches
	require.NoError(t, err)
	before := len(s.wrote)
	setWatches := frame(int32(3), int32(opSetWatches), int64(0), make([]byte, 12))
	_, err = second.Write(setWatches)
	require.NoError(t, err)

	assert.EqualValues(t, 7, binary.BigEndian.Uint64(s.wrote[8:]), "connect request")
	assert.EqualValues(t, 7, binary.BigEndian.Uint64(s.wrote[before+requestHead:]), "setting of watches")
	assert.Zero(t, binary.BigEndian.Uint64(setWatches[requestHead:]), "the caller's buffer is the caller's")
	assert.EqualValues(t, 9, p.zxid)
}

// What an event has shown the next server has to have, too. But there may have been more events
// of the same transaction, so watches are set as of the last answer.
func TestWireKeepsTheZxidOfEvents(t *testing.T) {
	var e wireEvents
	p := newPin(&e)
	first, _ := startLink(t, p, join(connectResponse(5, 4000), answerTo(1, 0), frame(int32(xidEvent), int64(8), int32(0)), frame(int32(xidEvent), int64(-1), int32(0))), whole)
	_, err := first.Write(join(connectRequest(0), frame(int32(1), int32(6))))
	require.NoError(t, err)
	_, err = io.ReadAll(first)
	require.NoError(t, err)

	second, s := startLink(t, p, nil, whole)
	_, err = second.Write(connectRequest(5))
	require.NoError(t, err)
	before := len(s.wrote)
	_, err = second.Write(frame(int32(3), int32(opSetWatches), int64(0), make([]byte, 12)))
	require.NoError(t, err)
	assert.EqualValues(t, 8, binary.BigEndian.Uint64(s.wrote[8:]), "connect request")
	assert.EqualValues(t, 7, binary.BigEndian.Uint64(s.wrote[before+requestHead:]), "setting of watches")
}

// A read of a path that is to be watched goes out with a watch, and no other does.
func TestWireSetsWatches(t *testing.T) {
	var e wireEvents
	p := newPin(&e)
	l, s := startLink(t, p, connectResponse(5, 4000), whole)
	_, err := l.Write(connectRequest(0))
	require.NoError(t, err)
	read := func(op int32, path string) (sent byte) {
		t.Helper()
		request := frame(int32(1), op, int32(len(path)), []byte(path), byte(0))
		_, err := l.Write(request)
		require.NoError(t, err)
		assert.Zero(t, request[len(request)-1], "the caller's buffer is the caller's")
		return s.wrote[len(s.wrote)-1]
	}
	first := p.watched.mark(watchedPath{opGetData, "/a"})
	second := p.watched.mark(watchedPath{opGetData, "/a"})
	assert.EqualValues(t, 1, read(opGetData, "/a"))
	assert.Zero(t, read(opGetData, "/ab"))
	assert.Zero(t, read(opExists, "/a"))
	first()
	assert.EqualValues(t, 1, read(opGetData, "/a"), "another call goes on")
	second()
	assert.Zero(t, read(opGetData, "/a"))
	assert.Empty(t, p.watched.reads)
}
