package layout

import (
	"strings"
	"testing"
)

// A record written by hand is refused if its directory's name cannot be part of a key.
func TestRecordOfNoDirectory(t *testing.T) {
	for _, dir := range []string{"", ".", "..", "a/b", `\u001b[2J`, `\u0000`, strings.Repeat("x", longestDir+1)} {
		if r, err := DecodeRecord([]byte(`{"v":1,"strategy":"fair","dir":"` + dir + `"}`)); err == nil {
			t.Errorf("%q: %+v, %v", dir, r, err)
		}
	}
	if _, err := DecodeRecord(NewRecord("fair").Encode()); err != nil {
		t.Error(err)
	}
}
