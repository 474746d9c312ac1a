package zookeeper

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The name of an enqueued entry is
//
//	e-<session, 16 hex digits>-<nonce, 16 hex digits>-<sequence, as the server appends it>
//
// The nonce finds the entry of a commit whose reply was lost. Session and nonce
// make the name unique, so that a guard on the path never meets a successor. The
// sequence gives the order and nothing else: it starts again when the directory
// is made anew, and wraps.
const (
	entryPrefix = "e-"
	tempPrefix  = "t-"
	hexDigits   = 16
	// nameStart is the length of what stands before the sequence.
	nameStart = len(entryPrefix) + hexDigits + 1 + hexDigits + 1
)

// A name is the parsed name of an enqueued entry.
type name struct {
	text  string
	nonce string
	seq   int32
}

// parseName accepts exactly what Enqueue makes. Anything else under a directory
// is foreign and no candidate.
func parseName(text string) (name, bool) {
	if len(text) < nameStart+10 || len(text) > nameStart+11 || !strings.HasPrefix(text, entryPrefix) {
		return name{}, false
	}
	rest := text[len(entryPrefix):]
	if !isHex(rest[:hexDigits]) || rest[hexDigits] != '-' {
		return name{}, false
	}
	nonce := rest[hexDigits+1:][:hexDigits]
	if !isHex(nonce) || text[nameStart-1] != '-' {
		return name{}, false
	}
	digits := text[nameStart:]
	seq, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || formatSequence(int32(seq)) != digits {
		return name{}, false
	}
	return name{text: text, nonce: nonce, seq: int32(seq)}, true
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

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// older tells whether sequence a was given out before b. The server's counter is
// a signed 32-bit number per directory that wraps from 2147483647 to
// -2147483648: after the wrap both numeric and textual order put the newest
// entries first, and every candidate there would elect a second leader. Serial
// number arithmetic (RFC 1982) is right as long as the live entries span less
// than 2^31 numbers.
func older(a, b int32) bool { return b-a > 0 }

// parseNames returns the enqueued entries among children, oldest first.
func parseNames(children []string) []name {
	names := make([]name, 0, len(children))
	for _, child := range children {
		if n, ok := parseName(child); ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b name) int {
		switch {
		case older(a.seq, b.seq):
			return -1
		case older(b.seq, a.seq):
			return 1
		}
		return strings.Compare(a.text, b.text)
	})
	return names
}

// namePrefix is what Enqueue gives to the server, which appends the sequence.
func namePrefix(session, nonce string) string {
	return entryPrefix + session + "-" + nonce + "-"
}

// newNonce returns 64 random bits.
func newNonce() string {
	var b [hexDigits / 2]byte
	_, _ = rand.Read(b[:]) // never fails: see crypto/rand
	return hex.EncodeToString(b[:])
}

// formatSession is a session's ID: what the server calls it, as 16 hex digits.
func formatSession(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// isEnqueued tells by the key alone whether an entry was enqueued: such a key is
// never used twice.
func isEnqueued(key string) bool {
	_, ok := parseName(key[strings.LastIndexByte(key, '/')+1:])
	return ok
}
