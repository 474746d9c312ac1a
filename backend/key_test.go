package backend_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"/a", "/jobs/reindex", "/ä/日本", "/a.b/..c", "/" + strings.Repeat("x", backend.MaxKey-1),
		strings.Repeat("/x", backend.MaxSegments), "/zookeepers", "/a/zookeeper", "/a/.elector", "/e\u0301"} {
		assert.NoError(t, backend.CheckKey(key), "%q", key)
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
		"/a\u00a0b":     "U+00A0",
		"/a\u200bb":     "U+200B",
		"/zookeeper":    "zookeeper",
		"/.elector/x":   ".elector",
		strings.Repeat("/x", backend.MaxSegments+1): "65 segments: at most 64",
		"/" + strings.Repeat("x", backend.MaxKey):   "too long",
	} {
		err := backend.CheckKey(key)
		assert.ErrorIs(t, err, backend.ErrBadKey, "%q", key)
		assert.ErrorContains(t, err, rule, "%q", key)
	}
}

func TestOpCheck(t *testing.T) {
	long, deep := "/"+strings.Repeat("x", backend.MaxDir-1), strings.Repeat("/x", backend.MaxSegments-1)
	for _, op := range []backend.Op{backend.Enqueue(long, nil), backend.Enqueue(deep, nil), backend.CompareAndSet(long+"x", nil, 0), backend.CreateEphemeral(deep+"/x", nil)} {
		assert.NoError(t, op.Check(), op.Kind)
	}
	for _, op := range []backend.Op{backend.Enqueue(long+"x", nil), backend.Enqueue(deep+"/x", nil), backend.Delete(backend.Entry{Key: "a"})} {
		assert.ErrorIs(t, op.Check(), backend.ErrBadKey, op.Kind)
	}
	err := backend.Op{Key: "/a"}.Check()
	assert.Error(t, err, "an op of no kind")
	assert.NotErrorIs(t, err, backend.ErrBadKey)
}

func TestParent(t *testing.T) {
	for key, want := range map[string]string{"/a": "/", "/a/b": "/a", "/a/b/c": "/a/b"} {
		assert.Equal(t, want, backend.Parent(key), key)
	}
}
