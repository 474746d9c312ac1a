package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJSONIsSafeForTerminals(t *testing.T) {
	var out bytes.Buffer
	e := newEncoder(&out)
	e.SetIndent("", "  ")
	hostile := map[string]string{"id": "a\x1b[2Jb\u009b2J\u202egnp\x7f\u2028\U000e0001", "well": "é 漢 😀 \"<&>\""}
	require.NoError(t, e.Encode(hostile))
	for _, r := range out.String() {
		assert.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
	}
	assert.Contains(t, out.String(), "é 漢 😀")
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, hostile, back)
}
