package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/wait"
)

// numbered are the names of two letters, a dash and ten digits, up to 2147483646.
var numbered = Queue{Length: 13, Wanted: 9, Counts: func(name []byte) bool {
	if len(name) != 13 || name[2] != '-' {
		return false
	}
	n, err := strconv.ParseUint(string(name[3:]), 10, 31)
	return err == nil && n < math.MaxInt32
}}

// numberedName returns a name with a number, which others may have, too.
func numberedName(seq int32) string { return fmt.Sprintf("%02x-%010d", rand.IntN(256), seq) }

// listAnswer returns the body of a reply to getChildren2.
func listAnswer(names []string) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, n := range names {
		body = appendBytes(body, []byte(n))
	}
	return append(body, make([]byte, statLength)...)
}

// plainList decodes the body of a reply to getChildren2 as is, and reports whether it is one.
func plainList(body []byte) (names []string, ok bool) {
	r, count, length := bytes.NewReader(body), uint32(0), int32(0)
	err := binary.Read(r, binary.BigEndian, &count)
	for ; err == nil && count > 0; count-- {
		if err = binary.Read(r, binary.BigEndian, &length); err == nil {
			name := make([]byte, min(max(length, 0), int32(len(body)))) // a null string has a length of -1
			_, err = io.ReadFull(r, name)
			names = append(names, string(name))
		}
	}
	return names, err == nil && r.Len() == statLength
}

// endOf returns the wanted part of a list: some names before own, and own, if it is listed.
func endOf(names []string, own string) []string {
	all := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return !numbered.Counts([]byte(n))
	})
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(a[3:], b[3:]), cmp.Compare(a, b)) })
	i := slices.Index(all, own)
	if i < 0 {
		return nil
	}
	return all[max(0, i-numbered.Wanted) : i+1]
}

// nearestRequest prepares a request for the names nearest before own.
func nearestRequest(p *Pin, own string) (request []byte, unmark func()) {
	path, unmark := p.Nearest("/dir", own)
	return frame(int32(1), int32(OpChildren), int32(len(path)), []byte(path), byte(0)), unmark
}

// askNearest makes a greeted link ask for the names nearest before a name, and returns what it sends,
// and what it passes on of the reply, up to its end.
func askNearest(t *testing.T, own string, answer []byte, chunk func() int) (request, handed []byte, err error) {
	t.Helper()
	p := listen(&wireEvents{})
	l, s := wiretest.Greeted(t, p.Attach, join(answer, answerTo(2, 0)), chunk)
	list, unmark := nearestRequest(p, own)
	s.Wrote = nil
	say(t, l, list)
	unmark()
	request = slices.Clone(s.Wrote)
	say(t, l, frame(int32(2), int32(6)))
	handed, err = io.ReadAll(l)
	return request, handed, err
}

// checkNearest compares what the link passes on of a body, in any pieces, with the result of a plain
// decoder. For any body, the reply after it is found.
func checkNearest(t *testing.T, own string, body []byte, piece func() int) {
	t.Helper()
	request, handed, err := askNearest(t, own, answerTo(1, 0, body...), piece)
	require.Equal(t, frame(int32(1), int32(OpChildren), int32(4), []byte("/dir"), byte(0)), request)
	names, ok := plainList(body)
	if !ok {
		require.ErrorIs(t, err, ErrProtocol)
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
	require.LessOrEqual(t, len(got), numbered.Wanted+1)
	require.Equal(t, body[len(body)-statLength:], list[len(list)-statLength:])
	want := endOf(names, own)
	require.Equal(t, want, endOf(got, own)) // without the own name, those before it are of no use
	if want != nil {
		require.Len(t, got, len(want), "names that nobody wants")
	}
}

func FuzzNearest(f *testing.F) {
	const own, past = "ab-0000000030", "cd-"
	other := func(seq int32) string { return fmt.Sprintf("%s%010d", past, seq) }
	var many []string
	for seq := range int32(40) {
		many = append(many, other(39-seq))
	}
	for _, names := range [][]string{
		nil, {own}, {other(29), own, other(30), other(31)}, append(many, own), many,
		{"", "ab-", "\xff\xfe\x00", "_c_0123456789abcdef0123456789abcdef-" + own, own + "/x", own, other(-1), other(-2147483648), other(math.MaxInt32)},
		{past + "9999999999", past + "4294967295", past + "4294967325", past + "-000000005", past + "+000000005", past + " 000000005", own},
	} {
		f.Add(listAnswer(names), []byte{1, 2, 3})
	}
	huge, end, two := binary.BigEndian.AppendUint32(nil, 1<<31-1), listAnswer([]string{own})[4:], []byte{0, 0, 0, 2}
	f.Add(join(huge, end), []byte{200})
	for _, length := range [][]byte{{0xff, 0xff, 0xff, 0xff}, huge, {0x80, 0, 0, 0}} {
		f.Add(join(two, length, end), []byte{5})
	}
	// Bodies that differ from the list they claim to be.
	list := listAnswer([]string{other(3), own})
	for _, body := range [][]byte{
		nil, list[:len(list)-statLength], list[:len(list)-1], append(slices.Clone(list), 0),
		join([]byte{0, 0, 0, 3}, list[4:]), join([]byte{0, 0, 0, 1}, list[4:]), join([]byte{0, 0, 0, 1}, huge, list[4:]),
	} {
		f.Add(body, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, body, pieces []byte) {
		at := 0
		checkNearest(t, own, body, func() int {
			if len(pieces) == 0 {
				return 1 << 20
			}
			at++
			return int(pieces[at%len(pieces)])
		})
	})
}

// The link passes on what the whole list would have shown.
func TestNearestIsTheListsEnd(t *testing.T) {
	for round := range 300 {
		names := []string{"seat", "ab-", "t-0123456789abcdef", numberedName(-1), numberedName(math.MaxInt32), ""}
		for range rand.IntN(40) {
			names = append(names, numberedName(rand.Int32N(50)))
		}
		own := numberedName(rand.Int32N(50))
		if round%10 > 0 {
			names = append(names, own)
		}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		checkNearest(t, own, listAnswer(names), func() int { return 1 + rand.IntN(200) })
	}
}

// A list in two pieces is whole, no matter where it is split, and a list that breaks off is no list. An
// error is passed on unchanged.
func TestNearestParted(t *testing.T) {
	own := numberedName(20)
	names := []string{own, "seat", ""}
	for seq := range int32(12) {
		names = append(names, numberedName(2*seq))
	}
	body := listAnswer(names)
	answer := answerTo(1, 0, body...)
	for at := 1; at < len(answer); at++ {
		sizes := []int{len(connectResponse(5, 4000)), at}
		checkNearest(t, own, body, func() int {
			if len(sizes) == 0 {
				return 1 << 20
			}
			n := sizes[0]
			sizes = sizes[1:]
			return n
		})
	}
	for at := range len(answer) - 1 {
		p := listen(&wireEvents{})
		l, s := wiretest.Greeted(t, p.Attach, nil, nil)
		list, unmark := nearestRequest(p, own)
		say(t, l, list)
		unmark()
		s.Reads = answer[:at]
		n, err := l.Read(make([]byte, 1<<10))
		require.Error(t, err, at)
		require.Zero(t, n, at)
	}
	refused := answerTo(1, -101)
	_, handed, err := askNearest(t, own, refused, nil)
	require.NoError(t, err)
	assert.Equal(t, join(noZxid(refused), noZxid(answerTo(2, 0))), handed)
}

// A server that replies to a listing before it was sent, which no sound server does, crashes nothing,
// and the link treats no other request's reply as a list.
func TestNearestAnsweredEarly(t *testing.T) {
	for _, pings := range []bool{false, true} { // whether one is outstanding, which replies may overtake
		p := listen(&wireEvents{})
		own := numberedName(7)
		early := answerTo(1, 0, listAnswer([]string{own})...)
		l, _ := wiretest.Greeted(t, p.Attach, join(early, answerTo(xidPing, 0)), nil)
		noted := 1
		if pings {
			say(t, l, frame(int32(xidPing), int32(OpPing)))
			noted++
		}
		list, unmark := nearestRequest(p, own)
		defer unmark()

		p.watched.mu.Lock() // the request is noted, but not sent yet
		wrote := make(chan error, 1)
		go func() {
			defer func() {
				if r := recover(); r != nil {
					wrote <- fmt.Errorf("panic: %v", r)
				}
			}()
			_, err := l.Write(list)
			wrote <- err
		}()
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.outstanding) == noted
		}, wait.Patience, time.Millisecond)
		_, err := io.ReadFull(l, make([]byte, len(early)))
		p.watched.mu.Unlock()
		require.NoError(t, err)
		require.NoError(t, <-wrote)
		if pings {
			_, err = io.ReadAll(l)
			assert.NoError(t, err)
		}
	}
}
