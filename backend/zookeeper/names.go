package zookeeper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/elector-go/elector/backend/driver"
)

// The name of an enqueued entry is
//
//	e-<session, 16 hex digits>-<nonce, 16 hex digits>-<sequence, as the server appends it>
//
// The nonce finds the entry of a commit whose reply was lost. Session and nonce
// make the name unique, so that a condition on the path never meets a successor. The
// sequence gives the order and nothing else: it starts again when the directory
// is made anew, and ends.
//
// # The end of the numbers
//
// The server numbers by a counter per directory, 32 bits with a sign, which each
// creation there raises by one, whoever's it is: an Enqueue makes two nodes. At
// 2147483647 the counter sticks (seen on 3.8: DataTree.createNode only ever raises it),
// so that each later name gets this number; while others' requests are under way it may
// be -2147483648 and more, as the server numbers ahead of what it has stored. Before
// ZooKeeper 3.6 (ZOOKEEPER-3249, by its source) the counter is set and not raised, and goes
// on through the negative numbers. Either way no number past the end tells who came first.
// Names without an order would make a leader of a newcomer, beside the one that leads.
//
// So only the numbers from 0 to 2147483646 count. Of these each is given once, and they
// rise in the order of the transactions: the counter never goes down while the directory
// stands. (Before 3.6 they would come again after 2^31 more creations in a directory that
// is used up, where nobody of this library makes anything for long.) An entry
// with any other number is nobody's: its Enqueue takes it away and is
// backend.ErrUsedUp; see commit.beyond.
const (
	entryPrefix = "e-"
	tempPrefix  = "t-"
	hexDigits   = 16
	// nameStart is the length of what stands before the sequence.
	nameStart = len(entryPrefix) + hexDigits + 1 + hexDigits + 1
	// nameLength is that of the names whose numbers count.
	nameLength = nameStart + 10
	// lastNumber and all after it do not count.
	lastNumber = math.MaxInt32
)

// A name is the parsed name of an enqueued entry.
type name struct {
	text  string
	nonce string
	seq   int32
}

// counts tells whether the number is one of those that are given once.
func (n name) counts() bool { return 0 <= n.seq && n.seq < lastNumber }

// parseName accepts exactly what Enqueue makes, numbers past the end included. Anything
// else under a directory is foreign and no candidate.
func parseName(text string) (name, bool) {
	if len(text) < nameStart+10 || len(text) > nameStart+11 || !strings.HasPrefix(text, entryPrefix) {
		return name{}, false
	}
	rest := text[len(entryPrefix):]
	if !driver.IsHex(rest[:hexDigits]) || rest[hexDigits] != '-' {
		return name{}, false
	}
	nonce := rest[hexDigits+1:][:hexDigits]
	if !driver.IsHex(nonce) || text[nameStart-1] != '-' {
		return name{}, false
	}
	digits := text[nameStart:]
	seq, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || formatSequence(int32(seq)) != digits {
		return name{}, false
	}
	return name{text: text, nonce: nonce, seq: int32(seq)}, true
}

// numberOf returns the number of a name that parseName takes and whose number counts. It makes
// no string.
func numberOf(text []byte) (seq int32, ok bool) {
	if len(text) != nameLength || text[0] != entryPrefix[0] || text[1] != entryPrefix[1] {
		return 0, false
	}
	for i, b := range text[len(entryPrefix):nameStart] {
		hex := '0' <= b && b <= '9' || 'a' <= b && b <= 'f'
		if dash := i == hexDigits || i == 2*hexDigits+1; dash != (b == '-') || !dash && !hex {
			return 0, false
		}
	}
	n := int64(0)
	for _, b := range text[nameStart:] {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = 10*n + int64(b-'0')
	}
	return int32(n), n < lastNumber
}

// formatSequence is Java's "%010d" of a signed 32-bit number.
func formatSequence(seq int32) string {
	sign, digits := "", strconv.Itoa(int(seq))
	if seq < 0 {
		sign, digits = "-", digits[1:]
	}
	const zeros = "0000000000"
	return sign + zeros[min(len(sign)+len(digits), len(zeros)):] + digits
}

// parseNames returns the enqueued entries among children, oldest first.
func parseNames(children []string) []name {
	names := make([]name, 0, len(children))
	for _, child := range children {
		if n, ok := parseName(child); ok && n.counts() {
			names = append(names, n)
		}
	}
	// Only a name that somebody has made up has another's number.
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.text, b.text))
	})
	return names
}

// namePrefix is what Enqueue gives to the server, which appends the sequence.
func namePrefix(session, nonce string) string {
	return entryPrefix + session + "-" + nonce + "-"
}

// formatSession is a session's ID: what the server calls it, as 16 hex digits.
func formatSession(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// isEnqueued tells by the key alone whether an entry was enqueued: such a key is
// never used twice.
func isEnqueued(key string) bool {
	_, ok := nameOf(key)
	return ok
}

func nameOf(key string) (name, bool) { return parseName(key[strings.LastIndexByte(key, '/')+1:]) }
