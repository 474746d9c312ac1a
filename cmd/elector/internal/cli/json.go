package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// newEncoder is json.NewEncoder for a terminal. Text that others wrote into the service may have characters
// that a terminal treats as commands, or that reverse the text. It escapes them.
func newEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(escaper{w}) }

type escaper struct{ to io.Writer }

// Write takes whole values, as an Encoder writes them.
func (e escaper) Write(p []byte) (int, error) {
	var out []byte
	for _, r := range string(p) {
		if r == '\n' || unicode.IsPrint(r) {
			out = append(out, string(r)...)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	if _, err := e.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
