package backend

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of keys, the same on every backend.
const (
	// MaxKey is the maximum length of a key in bytes.
	MaxKey = 512
	// MaxDir is the maximum length in bytes of a directory that entries can be enqueued in. It leaves room
	// for the names that backends choose.
	MaxDir = MaxKey - 64
	// MaxSegments is the maximum number of segments of a key. A key is created in one commit with all its
	// missing ancestors, and etcd and Consul take 128 operations in one.
	MaxSegments = 64
)

// CheckKey returns nil if key is valid, and otherwise ErrBadKey with the reason. A key is an absolute path
// such as "/jobs/reindex": segments separated by single slashes, none of them "." or "..", in printable
// valid UTF-8 (see CheckText), with at most MaxKey bytes and MaxSegments segments. Keys at "/zookeeper" and
// "/.elector", and below, belong to services: to ZooKeeper's servers, and to sessions on Consul. The rule
// is the same for all backends, so that a name that is valid on one is valid on another; no name is ever
// silently rewritten.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("key of %d bytes is too long: at most %d: %w", len(key), MaxKey, ErrBadKey)
	}
	if rule := brokenBy(key); rule != "" {
		return fmt.Errorf("key %q %s: %w", key, rule, ErrBadKey)
	}
	return nil
}

// brokenBy returns what is wrong with a key, or "".
func brokenBy(key string) (rule string) {
	switch {
	case key == "":
		return `is empty: give an absolute path such as "/jobs/reindex"`
	case key[0] != '/':
		return `is relative: it must begin with "/"`
	case key == "/":
		return "is the root: it must have at least one segment"
	case !utf8.ValidString(key):
		return "is not valid UTF-8"
	}
	if n := strings.Count(key, "/"); n > MaxSegments {
		return fmt.Sprintf("has %d segments: at most %d", n, MaxSegments)
	}
	if first, _, _ := strings.Cut(key[1:], "/"); first == "zookeeper" || first == ".elector" {
		return fmt.Sprintf("begins with %q, which a service keeps for itself", "/"+first)
	}
	for segment := range strings.SplitSeq(key[1:], "/") {
		switch segment {
		case "":
			return `has an empty segment: no "//" and no "/" at the end`
		case ".", "..":
			return fmt.Sprintf("has the segment %q", segment)
		}
	}
	if r, ok := CheckText(key); !ok {
		return fmt.Sprintf("has the character %U, which not every service can store", r)
	}
	return ""
}

// CheckText returns the first character of s that not every service can store in a name, and false, or true
// if there is none. Consul refuses characters in paths that cannot be printed: controls, all spaces except
// U+0020, such as U+00A0, and characters without width, such as U+200B. ZooKeeper refuses private use,
// specials, and all beyond U+FFFF, such as emoji, because it checks UTF-16 surrogates one by one.
func CheckText(s string) (rune, bool) {
	for _, r := range s {
		if !unicode.IsPrint(r) || r >= 0xfff0 {
			return r, false
		}
	}
	return 0, true
}

// Parent returns the key of key's parent, or "/" for a key of one segment.
func Parent(key string) string {
	if i := strings.LastIndexByte(key, '/'); i > 0 {
		return key[:i]
	}
	return "/"
}
