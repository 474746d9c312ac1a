package zookeeper

import (
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainList decodes the body of an answer to getChildren2 as it is written, and tells whether it is one.
func plainList(body []byte) (names []string, ok bool) {
	number := func() (n int32) {
		if ok = ok && len(body) >= 4; ok {
			n = int32(binary.BigEndian.Uint32(body))
			body = body[4:]
		}
		return n
	}
	ok = true
	for count := uint32(number()); ok && count > 0; count-- {
		n := int(max(number(), 0)) // a string that is null has a length of -1
		if ok = ok && n <= len(body); ok {
			names = append(names, string(body[:n]))
			body = body[n:]
		}
	}
	return names, ok && len(body) == statLength
}

// endOf is what is wanted of a list: some before an own name, and that, if it is there.
func endOf(names []string, own string) (end []string) {
	all := parseNames(names)
	i := slices.IndexFunc(all, func(n name) bool { return n.text == own })
	if i < 0 {
		return nil
	}
	last := i + 1
	for i > 0 && all[i-1].text == own { // a list that has it twice
		i--
	}
	for _, n := range all[max(0, i-remembered-1):i] {
		end = append(end, n.text)
	}
	return append(end, all[last-1].text)
}

// FuzzNearest compares what the link hands on of a body, in whatever pieces it comes, with what a plain decoder
// makes of it. Whatever the body is, the answer after it is found.
func FuzzNearest(f *testing.F) {
	own := namePrefix("00000000000000ab", "0123456789abcdef") + formatSequence(30)
	other := func(seq int32) string {
		return namePrefix("00000000000000cd", "fedcba9876543210") + formatSequence(seq)
	}
	past := namePrefix("00000000000000cd", "fedcba9876543210")
	var many []string
	for seq := range int32(40) {
		many = append(many, other(39-seq))
	}
	huge := binary.BigEndian.AppendUint32(nil, 1<<31-1)
	for _, names := range [][]string{
		nil, {own}, {other(29), own, other(30), other(31)}, append(many, own), many,
		{"", "e-", "\xff\xfe\x00", "_c_0123456789abcdef0123456789abcdef-" + own, own + "/x", own, other(-1), other(-2147483648), other(lastNumber)},
		{past + "9999999999", past + "4294967295", past + "4294967325", past + "-000000005", past + "+000000005", past + " 000000005", own},
	} {
		f.Add(listAnswer(names), []byte{1, 2, 3})
	}
	f.Add(join(huge, listAnswer([]string{own})[4:]), []byte{200})
	f.Add(join([]byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff}, listAnswer([]string{own})[4:]), []byte{5})
	f.Add(join([]byte{0, 0, 0, 2}, huge, listAnswer([]string{own})[4:]), []byte{5})
	f.Add(join([]byte{0, 0, 0, 2, 0x80, 0, 0, 0}, listAnswer([]string{own})[4:]), []byte{5})
	f.Fuzz(func(t *testing.T, body, pieces []byte) {
		at := 0
		piece := func() int {
			if len(pieces) == 0 {
				return 1 << 20
			}
			at++
			return int(pieces[at%len(pieces)])
		}
		_, handed, err := askNearest(t, own, answerTo(1, 0, body...), piece)
		names, ok := plainList(body)
		if !ok {
			require.ErrorIs(t, err, errProtocol)
			require.Empty(t, handed)
			return
		}
		require.NoError(t, err)
		after := noZxid(answerTo(2, 0))
		require.GreaterOrEqual(t, len(handed), len(after))
		list := handed[:len(handed)-len(after)]
		require.Equal(t, after, handed[len(list):])
		require.Equal(t, len(list)-4, int(binary.BigEndian.Uint32(list)))
		got, ok := plainList(list[4+answerHead:])
		require.True(t, ok)
		require.LessOrEqual(t, len(got), remembered+2)
		require.Equal(t, body[len(body)-statLength:], list[len(list)-statLength:])
		assert.Equal(t, endOf(names, own), endOf(got, own))
	})
}

// A list that comes in two pieces is whole, wherever it is parted, and one that breaks off is no list.
func TestNearestParted(t *testing.T) {
	own := numberedName(20)
	names := []string{own, "seat", ""}
	for seq := range int32(12) {
		names = append(names, numberedName(2*seq))
	}
	answer := answerTo(1, 0, listAnswer(names)...)
	_, want, err := askNearest(t, own, answer, whole)
	require.NoError(t, err)
	require.Equal(t, endOf(names, own), namesIn(t, want))
	greeting := len(connectResponse(5, 4000))
	for at := 1; at < len(answer); at++ {
		sizes := []int{greeting, at}
		parted := func() int {
			if len(sizes) == 0 {
				return 1 << 20
			}
			n := sizes[0]
			sizes = sizes[1:]
			return n
		}
		_, handed, err := askNearest(t, own, answer, parted)
		require.NoError(t, err, at)
		require.Equal(t, want, handed, at)
	}
	for at := range len(answer) - 1 {
		l, s := startLink(t, newPin(&wireEvents{}), connectResponse(5, 4000), whole)
		_, err := l.Write(connectRequest(0))
		require.NoError(t, err)
		_, err = io.ReadFull(l, make([]byte, greeting))
		require.NoError(t, err)
		path := "/dir/" + own + nearestMark
		unmark := l.pin.watched.mark(watchedPath{opNearest, path})
		_, err = l.Write(frame(int32(1), int32(opChildren), int32(len(path)), []byte(path), byte(0)))
		require.NoError(t, err)
		unmark()
		s.reads = answer[:at]
		n, err := l.Read(make([]byte, 1<<10))
		require.Error(t, err, at)
		require.Zero(t, n, at)
	}
}
