package backend_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// readable returns why a message is no good for a log, or "": it must be one printable line, of a bounded
// length.
func readable(message string) string {
	switch {
	case message == "":
		return "says nothing"
	case len(message) > 4*backend.MaxKey+512: // a quoted key takes up to four bytes for one
		return fmt.Sprintf("is %d bytes long", len(message))
	case !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl):
		return "is no line of text"
	}
	return ""
}

// storable is the rule of CheckKey, written another way.
func storable(key string) bool {
	if len(key) < 2 || len(key) > backend.MaxKey || !utf8.ValidString(key) || !path.IsAbs(key) || path.Clean(key) != key {
		return false
	}
	for _, unit := range utf16.Encode([]rune(key)) {
		seen := unicode.In(rune(unit), unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) || unit == ' '
		if !seen || unit >= 0xd800 && unit <= 0xf8ff || unit >= 0xfff0 {
			return false
		}
	}
	at := strings.Split(key, "/")
	return at[1] != "zookeeper" && at[1] != ".elector" && len(at) <= 1+backend.MaxSegments
}

// FuzzCheckKey checks that a key is accepted exactly if every service can store it, that its parents can be
// stored, too, and that a refusal is readable.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{
		"", "/", "/a", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/..", "/...", "/jobs/reindex", "/ä/日本", "/a\x00", "/a\u0085",
		"/a\ue000", "/a\ufff0", "/a\U0001F986", "/a\xff", "/" + strings.Repeat("x", backend.MaxKey-1), "/" + strings.Repeat("é", 256),
		strings.Repeat("/x", backend.MaxSegments), strings.Repeat("/x", backend.MaxSegments+1), "/a\u00a0b", "/a\u200bb", "/a\u3000", "/e\u0301",
		"/zookeeper", "/zookeeper/quota", "/zookeepers", "/a/zookeeper", "/.elector/x", "/.electors",
		strings.Repeat("x", 20000), strings.Repeat("/", 20000), "\n" + strings.Repeat("\x00", 600),
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := backend.CheckKey(key)
		require.Equal(t, storable(key), err == nil, "%q: %v", key, err)
		if err != nil {
			assert.ErrorIs(t, err, backend.ErrBadKey, "%q", key)
			assert.Empty(t, readable(err.Error()), "the message: %q", err)
			return
		}
		parent := backend.Parent(key)
		assert.Equal(t, path.Dir(key), parent, "of %q", key)
		if parent != "/" {
			assert.NoError(t, backend.CheckKey(parent), "parent of %q", key)
		}
	})
}
