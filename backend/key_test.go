package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/elector-go/elector/backend"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"/a", "/jobs/reindex", "/ä/日本", "/a.b/..c", "/" + strings.Repeat("x", backend.MaxKey-1)} {
		if err := backend.CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q): %v, want nil", key, err)
		}
	}
	for key, rule := range map[string]string{
		"":              "empty",
		"jobs":          "relative",
		"/":             "root",
		"/a/":           "empty segment",
		"//a":           "empty segment",
		"/a/./b":        `"."`,
		"/a/..":         `".."`,
		"/a\x00b":       "U+0000",
		"/a\nb":         "U+000A",
		"/a\u0085b":     "U+0085",
		"/a\ue000b":     "U+E000",
		"/a\ufff0b":     "U+FFF0",
		"/a\U0001F986b": "U+1F986",
		"/a\ufffd":      "U+FFFD",
		"/a\xffb":       "UTF-8",
		"/" + strings.Repeat("x", backend.MaxKey): "too long",
	} {
		err := backend.CheckKey(key)
		if !errors.Is(err, backend.ErrBadKey) || !strings.Contains(err.Error(), rule) {
			t.Errorf("CheckKey(%q): %v, want ErrBadKey that names %s", key, err, rule)
		}
	}
}

func TestParent(t *testing.T) {
	for key, want := range map[string]string{"/a": "/", "/a/b": "/a", "/a/b/c": "/a/b"} {
		if got := backend.Parent(key); got != want {
			t.Errorf("Parent(%q) = %q, want %q", key, got, want)
		}
	}
}
