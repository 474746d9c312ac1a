package backend

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the longest key in bytes that CheckKey accepts. It leaves room for
// what backends append.
const MaxKey = 512

// CheckKey reports why key cannot be one on every service, or nil. A key is an
// absolute path such as "/jobs/reindex": segments separated by single slashes,
// none of them "." or "..", printable valid UTF-8, at most MaxKey bytes. The rule
// is the same for all backends, so that a name that is good on one is good on
// another; nothing is ever rewritten silently. The error is ErrBadKey.
func CheckKey(key string) error {
	bad := func(rule string) error { return fmt.Errorf("key %q %s: %w", key, rule, ErrBadKey) }
	switch {
	case key == "":
		return bad(`is empty: give an absolute path such as "/jobs/reindex"`)
	case len(key) > MaxKey:
		return fmt.Errorf("key of %d bytes is too long: at most %d: %w", len(key), MaxKey, ErrBadKey)
	case key[0] != '/':
		return bad(`is relative: it must begin with "/"`)
	case key == "/":
		return bad("is the root: it must have at least one segment")
	case !utf8.ValidString(key):
		return bad("is not valid UTF-8")
	}
	for _, segment := range strings.Split(key[1:], "/") {
		switch segment {
		case "":
			return bad(`has an empty segment: no "//" and no "/" at the end`)
		case ".", "..":
			return bad(fmt.Sprintf("has the segment %q", segment))
		}
	}
	if r, ok := CheckText(key); !ok {
		return bad(fmt.Sprintf("has the character %U, which not every service can store", r))
	}
	return nil
}

// CheckText reports the first character of s that not every service can store in
// a name: controls, and what ZooKeeper refuses: private use, specials, and all
// beyond U+FFFF, such as emoji, because it looks at UTF-16 surrogates one by one.
func CheckText(s string) (rune, bool) {
	for _, r := range s {
		switch {
		case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
			return r, false
		}
	}
	return 0, true
}

// Parent returns the key of key's parent, and "/" for a key of one segment.
func Parent(key string) string {
	if i := strings.LastIndexByte(key, '/'); i > 0 {
		return key[:i]
	}
	return "/"
}
