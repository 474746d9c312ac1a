package driver

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
)

// NewNonce returns random bits, by which a commit is told from all others. It is never zero, which
// is what a service may have where there is none.
func NewNonce() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails: see crypto/rand
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// IsHex tells whether there are hexadecimal digits only, in lower case, as in the names of enqueued
// entries.
func IsHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
