package driver

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
)

// NewNonce returns random bits that tell a commit from all others. It never returns zero, which a service
// may have where there is no nonce.
func NewNonce() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails: see crypto/rand
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// IsHex reports whether s has only lower-case hexadecimal digits, as in the names of enqueued entries.
func IsHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
