package zookeeper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The name of an enqueued entry is
//
//	e-<session, 16 hex digits>-<nonce, 16 hex digits>-<sequence, as the server appends it>
//
// The nonce finds the entry of a commit whose reply was lost. Session and nonce make the name unique,
// so a condition on the path never meets a successor. The sequence gives the order and nothing else: it
// starts again when the directory is created again, and it ends.
//
// The server's counter of a directory ends: past 2147483646 it sticks, or goes through the negative numbers, and
// names without an order would make a newcomer a leader, beside the one that leads. So only the numbers from 0
// to 2147483646 count, which are given once each, in the order of the transactions: see DESIGN.md, "The end of
// the numbers". An entry with any other number belongs to nobody: its Enqueue removes it and returns
// backend.ErrUsedUp; see commit.beyond.
const (
	entryPrefix = "e-"
	tempPrefix  = "t-"
	hexDigits   = 16
	// nameStart is the length of what precedes the sequence.
	nameStart = len(entryPrefix) + hexDigits + 1 + hexDigits + 1
	// nameLength is the length of names whose numbers count.
	nameLength = nameStart + 10
	// lastNumber and all later numbers do not count.
	lastNumber = math.MaxInt32
)

// A name is the parsed name of an enqueued entry.
type name struct {
	text  string
	nonce string
	seq   int32
}

// counts reports whether the number is one of those that are given once.
func (n name) counts() bool { return 0 <= n.seq && n.seq < lastNumber }

// parseName accepts exactly what Enqueue makes, including numbers past the end. All other names under a
// directory are foreign and no candidates.
func parseName(text string) (name, bool) {
	seq, ok := sequenceOf(text)
	if !ok {
		return name{}, false
	}
	return name{text: text, nonce: text[nameStart-1-hexDigits : nameStart-1], seq: seq}, true
}

// isCounted reports whether parseName accepts a name, and its number counts. It allocates no string.
func isCounted(text []byte) bool {
	seq, ok := sequenceOf(text)
	return ok && name{seq: seq}.counts()
}

// sequenceOf returns the number at the end of a name, if Enqueue makes such names.
func sequenceOf[T string | []byte](text T) (seq int32, ok bool) {
	if len(text) < nameLength || len(text) > nameLength+1 || string(text[:len(entryPrefix)]) != entryPrefix {
		return 0, false
	}
	for i := len(entryPrefix); i < nameStart; i++ {
		b := text[i]
		hex := '0' <= b && b <= '9' || 'a' <= b && b <= 'f'
		if dash := i == nameStart-1 || i == nameStart-2-hexDigits; dash != (b == '-') || !dash && !hex {
			return 0, false
		}
	}
	// Java's "%010d" of a signed 32-bit number: a sign counts, unless there are ten digits.
	negative, n := text[nameStart] == '-', int64(0)
	for i := nameStart; i < len(text); i++ {
		switch b := text[i]; {
		case negative && i == nameStart:
		case b < '0' || b > '9':
			return 0, false
		default:
			n = 10*n + int64(b-'0')
		}
	}
	if negative {
		n = -n
	}
	long := len(text) > nameLength
	return int32(n), n == int64(int32(n)) && negative == (n < 0) && long == (n <= -1e9)
}

// parseNames returns the enqueued entries among children, oldest first.
func parseNames(children []string) []name {
	names := make([]name, 0, len(children))
	for _, child := range children {
		if n, ok := parseName(child); ok && n.counts() {
			names = append(names, n)
		}
	}
	// Only an invented name has the number of another name.
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.text, b.text))
	})
	return names
}

// namePrefix returns what Enqueue sends to the server, which appends the sequence.
func namePrefix(session, nonce string) string {
	return entryPrefix + session + "-" + nonce + "-"
}

// formatSession returns a session's ID: the server's number, as 16 hex digits.
func formatSession(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// isEnqueued reports from the key alone whether an entry was enqueued: such a key is never used twice.
func isEnqueued(key string) bool {
	_, ok := nameOf(key)
	return ok
}

func nameOf(key string) (name, bool) { return parseName(key[strings.LastIndexByte(key, '/')+1:]) }
