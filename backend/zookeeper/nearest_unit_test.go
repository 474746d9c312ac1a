package zookeeper

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

// numberedName is a name as Enqueue makes it.
func numberedName(seq int32) string {
	return namePrefix(formatSession(rand.Int64()), fmt.Sprintf("%016x", rand.Uint64())) + formatSequence(seq)
}

// listAnswer is the body of an answer to getChildren2.
func listAnswer(names []string) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, n := range names {
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(n))), n...)
	}
	return append(body, make([]byte, statLength)...)
}

// askNearest has a link that is greeted ask for what is nearest before a name, and returns what it sends, and
// what it hands on of the answer, up to its end.
func askNearest(t *testing.T, own string, answer []byte, chunk func() int) (request, handed []byte, err error) {
	t.Helper()
	p := newPin(&wireEvents{})
	after := answerTo(2, 0)
	l, s := startLink(t, p, join(connectResponse(5, 4000), answer, after), chunk)
	_, err = l.Write(connectRequest(0))
	require.NoError(t, err)
	greeting := make([]byte, len(connectResponse(5, 4000)))
	_, err = io.ReadFull(l, greeting)
	require.NoError(t, err)
	path := "/dir/" + own + nearestMark
	unmark := p.watched.mark(watchedPath{opNearest, path})
	s.wrote = nil
	list := frame(int32(1), int32(opChildren), int32(len(path)), []byte(path), byte(0))
	_, err = l.Write(list)
	require.NoError(t, err)
	unmark()
	request = slices.Clone(s.wrote)
	_, err = l.Write(frame(int32(2), int32(6)))
	require.NoError(t, err)
	handed, err = io.ReadAll(l)
	return request, handed, err
}

// What is handed on of a list is what the whole list would have told.
func TestNearestIsTheListsEnd(t *testing.T) {
	for round := range 300 {
		names := []string{"seat", "e-", "t-0123456789abcdef", numberedName(-1), numberedName(lastNumber), ""}
		for range rand.IntN(40) {
			names = append(names, numberedName(rand.Int32N(50)))
		}
		own := numberedName(rand.Int32N(50))
		if round%10 > 0 {
			names = append(names, own)
		}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var want []string
		all := parseNames(names)
		if i := slices.IndexFunc(all, func(n name) bool { return n.text == own }); i >= 0 {
			for _, n := range all[max(0, i-remembered-1) : i+1] {
				want = append(want, n.text)
			}
		}
		request, handed, err := askNearest(t, own, answerTo(1, 0, listAnswer(names)...), func() int { return 1 + rand.IntN(200) })
		require.NoError(t, err)
		assert.Equal(t, frame(int32(1), int32(opChildren), int32(4), []byte("/dir"), byte(0)), request)
		if want == nil { // the names before one that is not listed are of no use to anybody
			got := parseNames(namesIn(t, handed))
			assert.False(t, slices.ContainsFunc(got, func(n name) bool { return n.text == own }))
			continue
		}
		list := noZxid(answerTo(1, 0, listAnswer(want)...))
		require.Equal(t, join(list, noZxid(answerTo(2, 0))), handed, "round %d", round)
	}
}

// namesIn are those in an answer to getChildren2.
func namesIn(t *testing.T, handed []byte) (names []string) {
	t.Helper()
	body := handed[4+answerHead:]
	count := binary.BigEndian.Uint32(body)
	for body = body[4:]; count > 0; count-- {
		n := binary.BigEndian.Uint32(body)
		names = append(names, string(body[4:4+n]))
		body = body[4+n:]
	}
	return names
}

// A list that is not what it says ends the link, and an error is handed on as it is.
func TestNearestOfWhatIsNone(t *testing.T) {
	own := numberedName(7)
	list := listAnswer([]string{numberedName(3), own})
	for name, body := range map[string][]byte{
		"no body":         nil,
		"no stat":         list[:len(list)-statLength],
		"half a stat":     list[:len(list)-1],
		"more":            append(slices.Clone(list), 0),
		"a name too many": join([]byte{0, 0, 0, 3}, list[4:]),
		"a name too few":  join([]byte{0, 0, 0, 1}, list[4:]),
		"a huge name":     join([]byte{0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff}, list[4:]),
	} {
		_, _, err := askNearest(t, own, answerTo(1, 0, body...), whole)
		assert.ErrorIs(t, err, errProtocol, name)
	}
	refused := answerTo(1, -101)
	_, handed, err := askNearest(t, own, refused, whole)
	require.NoError(t, err)
	assert.Equal(t, join(noZxid(refused), noZxid(answerTo(2, 0))), handed)
}

// numberOf takes the names whose numbers count, and no others.
func TestNumberOf(t *testing.T) {
	texts := []string{"", "e-", numberedName(0), numberedName(lastNumber - 1), numberedName(lastNumber), numberedName(-1), numberedName(-2147483648)}
	for _, n := range []int32{0, 12, lastNumber - 1, lastNumber, -12} {
		for range 2000 {
			b := []byte(numberedName(n))
			b[rand.IntN(len(b))] = "-0129afgAz+ "[rand.IntN(12)]
			texts = append(texts, string(b), string(b[:rand.IntN(len(b))]))
		}
	}
	for _, text := range texts {
		n, ok := parseName(text)
		seq, counts := numberOf([]byte(text))
		assert.Equal(t, ok && n.counts(), counts, text)
		if counts {
			assert.Equal(t, n.seq, seq, text)
		}
	}
}

// A server that answers a listing before that has left, which no sound one does, crashes nobody and has no other
// request's answer taken for a list.
func TestNearestAnsweredEarly(t *testing.T) {
	for _, pings := range []bool{false, true} { // one is outstanding, which answers may overtake
		p := newPin(&wireEvents{})
		own := numberedName(7)
		early := answerTo(1, 0, listAnswer([]string{own})...)
		l, _ := startLink(t, p, join(connectResponse(5, 4000), early, answerTo(xidPing, 0)), whole)
		_, err := l.Write(connectRequest(0))
		require.NoError(t, err)
		_, err = io.ReadFull(l, make([]byte, len(connectResponse(5, 4000))))
		require.NoError(t, err)
		noted := 1
		if pings {
			_, err = l.Write(frame(int32(xidPing), int32(opPing)))
			require.NoError(t, err)
			noted++
		}
		path := "/dir/" + own + nearestMark
		defer p.watched.mark(watchedPath{opNearest, path})()

		p.watched.mu.Lock() // the request is noted, and is not out yet
		wrote := make(chan error, 1)
		go func() {
			defer func() {
				if r := recover(); r != nil {
					wrote <- fmt.Errorf("panic: %v", r)
				}
			}()
			_, err := l.Write(frame(int32(1), int32(opChildren), int32(len(path)), []byte(path), byte(0)))
			wrote <- err
		}()
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.outstanding) == noted
		}, wait.Patience, time.Millisecond)
		_, err = io.ReadFull(l, make([]byte, len(early)))
		p.watched.mu.Unlock()
		require.NoError(t, err)
		require.NoError(t, <-wrote)
		if pings {
			_, err = io.ReadAll(l)
			assert.NoError(t, err)
		}
	}
}
